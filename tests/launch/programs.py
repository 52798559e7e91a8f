"""Programs that tests run under the launcher, as source text."""

LOOP = """
# A loop that uses the library: sums the steps; dies as told by the arguments, "ATTEMPT:STEP:HOW".
import os, signal, sys, time
import numpy as np
import lastgood
x = np.zeros(3)
deaths = [a.split(":") for a in sys.argv[2:]]
run = lastgood.Run({"x": x}, every=5)
for step in run.steps(int(sys.argv[1])):
    x += step
    for attempt, at, how in deaths:
        if os.environ["LASTGOOD_ATTEMPT"] == attempt and step == int(at):
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "raise":
                raise KeyError("no such key")
            if how == "exit0":
                sys.exit(0)
            if how == "oom":
                print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB.", file=sys.stderr)
                sys.exit(1)
            if how == "sleep":
                print("sleeping", flush=True)
                time.sleep(600)
print("sum", int(x[0]), flush=True)
"""

STAND_STILL = """
# A rank that sends heartbeats as core.heartbeat describes them, and then stands still.
import faulthandler, os, signal, sys, time
from lastgood.core import heartbeat
from lastgood.core.heartbeat import STACK_SIGNAL, Heartbeat
rank, moving = int(sys.argv[1]), "moving" in sys.argv
faulthandler.register(STACK_SIGNAL, file=sys.stderr, all_threads=True)
signal.signal(signal.SIGTERM, lambda *_: None)
path = os.path.join(os.environ["LASTGOOD_HEARTBEATS"], heartbeat.heartbeat_file(rank))
def beat(step, sequence, phase="step"):
    data = heartbeat.encode(Heartbeat(os.getpid(), step, 100, -1, time.monotonic(), phase, sequence))
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)
def waits_for_a_rank_that_never_comes(step):
    while True:
        if moving:
            step += 1
            beat(step, 2 * (turns + step))
        time.sleep(0.02)
turns = 0
while True:
    # No rank stands still before all are there.
    beat(0, 2 * turns)
    turns += 1
    here = [name for name in os.listdir(os.environ["LASTGOOD_HEARTBEATS"]) if not name.endswith(".new")]
    if len(here) >= (2 if "both" in sys.argv else 1):
        break
    time.sleep(0.02)
for step in (1, 2):
    beat(step, 2 * (turns + step))
    time.sleep(0.02)
if "finished" in sys.argv:
    beat(100, 2 * turns + 100, "finished")
    time.sleep(15)
    sys.exit(0)
print("ready", flush=True)
waits_for_a_rank_that_never_comes(3)
"""

CHECKPOINTING = """
# Knows nothing of lastgood: counts in out/step_N.json, resumes with --resume-from, dies as told.
import json, os, signal, sys
arguments = sys.argv[1:]
resumed = arguments[arguments.index("--resume-from") + 1] if "--resume-from" in arguments else None
first = json.load(open(resumed))["step"] if resumed else 0
print("resumed from", first, flush=True)
os.makedirs("out", exist_ok=True)
for step in range(first + 1, int(arguments[0]) + 1):
    with open(f"out/tmp_{step}.json", "w") as file:
        json.dump({"step": step}, file)
    os.replace(f"out/tmp_{step}.json", f"out/step_{step}.json")
    if f"{os.environ['LASTGOOD_ATTEMPT']}:{step}" in arguments:
        os.kill(os.getpid(), signal.SIGKILL)
print("done at", step if int(arguments[0]) > first else first, flush=True)
"""
