"""A Lightning script as its users write it: checkpoints each few steps, and resumes from the last one."""

import argparse
import os
import time

import pytorch_lightning as L
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--every", choices=("steps", "epoch"), default="steps", help="when it saves")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--keep-random", action="store_true", help="with the random state in its checkpoints")
options = parser.parse_args()


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x), y)
        print(f"step {self.global_step + 1} loss {loss.item():.9g}", flush=True)
        # Whoever is to kill this sees each step.
        looks = os.environ.get("LOOKS")
        before = os.path.getsize(looks) if looks else -1
        while looks and os.path.getsize(looks) == before:
            time.sleep(0.001)
        return loss

    def on_save_checkpoint(self, checkpoint):
        if options.keep_random:
            checkpoint["rng_state"] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint):
        if options.keep_random:
            torch.set_rng_state(checkpoint["rng_state"])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


torch.set_num_threads(1)
L.seed_everything(7)
x = torch.randn(88, 16)
data = TensorDataset(x, x[:, :4].sin().sum(1, keepdim=True))
loader = DataLoader(data, batch_size=8, shuffle=True)
when = {"every_n_train_steps": 4} if options.every == "steps" else {"every_n_epochs": 1}
trainer = L.Trainer(
    accelerator="cpu",
    devices=1,
    max_epochs=options.epochs,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint(dirpath="out", save_last=True, **when)],
)
last = "out/last.ckpt" if os.path.exists("out/last.ckpt") else None
model = Net()
trainer.fit(model, loader, ckpt_path=last)
torch.save(model.state_dict(), "weights.pt")
