"""A program that saves by itself, without lastgood: `python plain.py MODE [STEPS] [STEP-SECONDS] [HELD-STEPS]`.

good        numbered files, each written beside and renamed; a damaged one is passed over
from-zero   saves, and never looks at what it has saved
in-place    one file, overwritten; whatever is in it is taken
trusting    numbered files; takes the newest, whatever is in it, and begins where its name says
silent      as good, and prints no steps

HELD-STEPS are as 12,30: it stands still there until the drill has struck it once, and then a second time.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import waiting

mode = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 60
step_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.02
held = [int(step) for step in sys.argv[4].split(",")] if len(sys.argv) > 4 else []
out = Path("out")
out.mkdir(exist_ok=True)


def stamp(state: dict) -> str:
    return f"{state['step']}-{sum(state['values'])}"


def path_of(step: int) -> Path:
    return out / ("state.json" if mode == "in-place" else f"state-{step:06d}.json")


def save(step: int, values: list) -> None:
    state = {"step": step, "values": values}
    text = json.dumps({**state, "stamp": stamp(state)})
    if mode in ("in-place",):
        path_of(step).write_text(text)
        return
    part = path_of(step).with_suffix(".json.tmp")
    part.write_text(text)
    with part.open() as file:
        os.fsync(file.fileno())
    part.replace(path_of(step))
    for old in sorted(out.glob("state-*.json"))[:-3]:
        old.unlink()


def load() -> tuple[int, list]:
    if mode == "from-zero":
        return 0, [0] * 500
    for path in sorted(out.glob("state*.json"), reverse=True):
        if mode == "trusting":
            return int(path.stem.rpartition("-")[2]), [0] * 500
        try:
            state = json.loads(path.read_text())
            if mode == "in-place" or state["stamp"] == stamp(state):
                return state["step"], state["values"]
        except (ValueError, KeyError, TypeError):
            if mode == "in-place":
                raise
    return 0, [0] * 500


told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
begin, values = load()
for step in range(begin + 1, steps + 1):
    time.sleep(step_s)
    values = [value + step for value in values]
    if mode != "silent":
        print(f"step {step}", flush=True)
    if step in held:
        waiting.until_struck(held.index(step) + 1, is_over=lambda: told)
    if step % 5 == 0 or told:
        save(step, values)
    if told:
        sys.exit(143)
print("done", flush=True)
