"""A plain training loop that saves itself with torch.save, as people write it. --mistake makes one of five classic mistakes."""

import argparse
import glob
import os
import re
import time

import torch
from torch import nn

MISTAKES = ("weights-only", "no-random-state", "data-restarts", "unpadded-names", "in-place")

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--save-every", type=int, default=4)
parser.add_argument("--pause", type=float, default=0.02)
parser.add_argument("--mistake", choices=MISTAKES)
options = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(88, 16)
targets = inputs[:, :4].sin().sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
BATCH = 8
BATCHES = len(inputs) // BATCH


def name_of(step):
    if options.mistake == "in-place":
        return "out/checkpoint.pt"
    return f"out/step_{step}.pt" if options.mistake == "unpadded-names" else f"out/step_{step:06d}.pt"


def save(step, epoch, batch):
    state = {"step": step, "model": model.state_dict(), "epoch": epoch}
    if options.mistake != "weights-only":
        state["optimizer"] = optimizer.state_dict()
    if options.mistake != "no-random-state":
        state["random"] = torch.get_rng_state()
    if options.mistake != "data-restarts":
        state["batch"] = batch
    if options.mistake == "in-place":
        torch.save(state, name_of(step))
        return
    torch.save(state, name_of(step) + ".tmp")
    os.replace(name_of(step) + ".tmp", name_of(step))


def wait_for_a_look():
    """Where a test counts the looks of whoever is to kill this, they see each step, however busy the machine is."""
    looks = os.environ.get("LOOKS")
    before = os.path.getsize(looks) if looks else -1
    while looks and os.path.getsize(looks) == before:
        time.sleep(0.001)


def newest():
    found = glob.glob("out/*.pt")
    if options.mistake == "unpadded-names":
        return max(found, default=None)
    return max(found, key=lambda path: int(re.sub(r"\D", "", path) or 0), default=None)


os.makedirs("out", exist_ok=True)
step = epoch = batch = 0
if path := newest():
    state = torch.load(path)
    model.load_state_dict(state["model"])
    if "optimizer" in state:
        optimizer.load_state_dict(state["optimizer"])
    if "random" in state:
        torch.set_rng_state(state["random"])
    step, epoch, batch = state["step"], state["epoch"], state.get("batch", 0)
    print(f"resumed from {path}", flush=True)

while step < options.steps:
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(epoch))
    while batch < BATCHES and step < options.steps:
        chosen = order[batch * BATCH : (batch + 1) * BATCH]
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        step, batch = step + 1, batch + 1
        print(f"step {step} loss {loss.item():.9g}", flush=True)
        wait_for_a_look()
        time.sleep(options.pause)
        if step % options.save_every == 0:
            save(step, epoch, batch)
    if batch == BATCHES:
        epoch, batch = epoch + 1, 0

torch.save(model.state_dict(), "final.tmp")
os.replace("final.tmp", "weights.pt")
