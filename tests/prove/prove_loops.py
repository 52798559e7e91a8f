"""A training loop in plain NumPy as its user writes it, right, and with each of the classic mistakes.

A step takes milliseconds. Where a file LOOKS grows with each look at the run, each step waits for the next one: a prover that
is not given a core for a while finds the loop where it was, and not at its end.
"""

LASTGOOD = """
import os
import sys

from lastgood.cli.main import main
from lastgood.trial.trial import Trial


def look(trial, really_look=Trial.look):
    sight = really_look(trial)
    with open(os.environ["LOOKS"], "ab") as file:
        file.write(b".")
    return sight


open(os.environ["LOOKS"], "ab").close()
Trial.look = look
sys.exit(main(sys.argv[1:]))
"""
"""`lastgood`, to be run with LOOKS in its environment."""

WORK = """\
def work():
    time.sleep(0.008)
    looks = os.environ.get("LOOKS")
    before = os.path.getsize(looks) if looks else -1
    while looks and os.path.getsize(looks) == before:
        time.sleep(0.001)
"""

RIGHT = (
    """
import json
import os
import time

import numpy as np

rng = np.random.default_rng(3)
table = np.random.default_rng(7).normal(size=(24, 4))
wanted = table @ np.array([1.0, -2.0, 3.0, 0.5])
w, velocity = np.zeros(4), np.zeros(4)
order, position, step = rng.permutation(24), 0, 0


"""
    + WORK
    + """

def save():
    state = {
        "w": w,
        "velocity": velocity,
        "step": step,
        "rng": json.dumps(rng.bit_generator.state),
        "order": order,
        "position": position,
    }
    with open("out/new.tmp", "wb") as file:
        np.savez(file, **state)
    os.replace("out/new.tmp", f"out/step_{step:06d}.npz")


os.makedirs("out", exist_ok=True)
names = sorted(name for name in os.listdir("out") if name.endswith(".npz"))
if names:
    saved = np.load(f"out/{names[-1]}")
    w, step = saved["w"], int(saved["step"])
    velocity = saved["velocity"]
    rng.bit_generator.state = json.loads(str(saved["rng"]))
    order, position = saved["order"], int(saved["position"])
while step < 60:
    if position == len(order):
        order, position = rng.permutation(24), 0
    row = order[position]
    position += 1
    noise = rng.normal(0, 0.01, 4)
    error = (table[row] + noise) @ w - wanted[row]
    loss = error * error
    velocity = 0.9 * velocity + error * table[row]
    w = w - 0.01 * velocity
    step += 1
    print(f"step {step} loss {loss:.17g}")
    work()
    if step % 6 == 0:
        save()
np.save("final.npy", w)
"""
)


PRINTS = '    print(f"step {step} loss {loss:.17g}")\n'


def changed(*changes: tuple[str, str]) -> str:
    source = RIGHT
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


WITHOUT_RANDOM = (
    ('        "rng": json.dumps(rng.bit_generator.state),\n', ""),
    ('    rng.bit_generator.state = json.loads(str(saved["rng"]))\n', ""),
)
_NO_POSITION = (
    ('        "order": order,\n        "position": position,\n', ""),
    ('    order, position = saved["order"], int(saved["position"])\n', "    order = rng.permutation(24)\n"),
)
_NO_VELOCITY = (('        "velocity": velocity,\n', ""), ('    velocity = saved["velocity"]\n', ""))

WEIGHTS_ONLY = changed(*WITHOUT_RANDOM, *_NO_POSITION, *_NO_VELOCITY)
NO_OPTIMIZER = changed(*_NO_VELOCITY)
NO_RANDOM_STATE = changed(*WITHOUT_RANDOM)
DATA_RESTARTS = changed(*_NO_POSITION)
UNPADDED_NAMES = changed(("{step:06d}", "{step}"))
IN_PLACE = changed(
    (
        '    with open("out/new.tmp", "wb") as file:\n        np.savez(file, **state)\n',
        '    np.savez("out/last.npz", **state)\n',
    ),
    ('    os.replace("out/new.tmp", f"out/step_{step:06d}.npz")\n', ""),
)
NEVER_LOOKS = changed(("if names:", "if False:"))
NEVER_SAVES = changed(("        save()", "        pass"))
NOT_DETERMINISTIC = changed(("default_rng(3)", "default_rng()"))
WITH_OPTION = changed(
    ('if names:\n    saved = np.load(f"out/{names[-1]}")', "if len(sys.argv) > 2:\n    saved = np.load(sys.argv[2])"),
    ("import os\n", "import os\nimport sys\n"),
)

WITH_LIBRARY = (
    """
import os
import time

import numpy as np

import lastgood


"""
    + WORK
    + """

rng = np.random.default_rng(3)
w = np.zeros(4)
sampler = lastgood.ResumableSampler(32, batch_size=4, seed=1)
run = lastgood.Run({"rng": rng, "w": w}, job="job", every=6)
for epoch in run.epochs(8):
    for batch in run.batches(sampler):
        w += rng.normal(0, 0.01, 4) * batch.sum()
        run.log(w=float(w.sum()))
        work()
"""
)
