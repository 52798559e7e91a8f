"""Programs that run as the tasks of a step, as source text."""

SIGNALLED = """
# A rank without the library: says which signals it gets, and ends with 75 when it is asked to stop.
import os, signal, subprocess, sys, time
rank, node = os.environ["SLURM_PROCID"], os.environ["SLURMD_NODENAME"]
def say(number, frame):
    print(f"rank {rank} on {node}: {signal.Signals(number).name}", flush=True)
    if number == signal.SIGTERM and "stubborn" not in sys.argv:
        sys.exit(75)
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, say)
if "nested" in sys.argv:
    # Its environment is empty: it is known by its parent.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={})
print(f"rank {rank} is ready", flush=True)
while True:
    time.sleep(0.1)
"""

TOGETHER = """
# Ranks over gloo. In attempt 1 rank 1 damages on storage what the newest checkpoint is made of, and dies.
import json, os, pathlib, signal, sys, time
import torch, torch.distributed as dist
import lastgood
from lastgood.keeper import client as keeper
rank, size, job = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]), pathlib.Path(os.environ["LASTGOOD_JOB"])
attempt, node = os.environ["LASTGOOD_ATTEMPT"], os.environ["SLURMD_NODENAME"]
total, how = int(sys.argv[1]), sys.argv[2:]
dist.init_process_group("gloo", init_method=f"file://{job}-meeting-{attempt}", rank=rank, world_size=size)
common, own = torch.zeros(1000), torch.zeros(1000)
run = lastgood.Run({"common": common, "own": own}, every=10, random=False, keep=lastgood.Keep(last=9), read="broadcast")
print(f"rank {rank} on {node} begins at {run.step}", flush=True)

def wait_until(is_so, what):
    end = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)

def wait_for(path):
    wait_until(path.exists, path)

def damage(step):
    checkpoint = job / "checkpoints" / f"{step:012d}-0001"
    wait_for(checkpoint / "manifest.json")
    for file in sorted(checkpoint.glob("rank-*.safetensors")):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)

for step in run.steps(total):
    common += step
    own += (rank + 1) * step
    if "slow" in how:
        time.sleep(0.05)
    if step == 19 and attempt == "1" and rank == 1 and "die before its part" in how:
        wait_for(job / "checkpoints" / "000000000010-0001" / "manifest.json")
        keeper.Keeper.save = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if step == 25 and attempt == "1" and rank == 1:
        if "damage" in how:
            damage(20)
        if "forget" in how:
            # The keeper of this node is lost, and nothing is saved before the end.
            wait_for(job / "checkpoints" / "000000000020-0001" / "manifest.json")
            told = pathlib.Path(os.environ["KEEPER_PID"])
            wait_for(told)
            os.kill(int(told.read_text()), signal.SIGKILL)
            # By the agent of this node, before the attempt is over.
            wait_until(lambda: b'"kind":"keeper_lost"' in (job / "attempts" / "0001.events.jsonl").read_bytes(), "a word of it")
        if "die" in how:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in how:
            time.sleep(600)
print(f"rank {rank} has {int(own[0])}", flush=True)
"""
