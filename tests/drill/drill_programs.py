"""Programs as users write them, for drills: small, and quick to start."""

_LOOP = """
import os, pickle, sys, time
PATH, TOTAL = "ckpt.bin", int(sys.argv[1])

{save}

x, start = 1.0, 0
if os.path.exists(PATH):
    with open(PATH, "rb") as file:
        start, x, _ = pickle.load(file)
for step in range(start + 1, TOTAL + 1):
    x = x * 1.0001 + 0.001 * step
    print(f"step {{step}} x {{x:.17g}}", flush=True)
    time.sleep(0.02)
    if step % 10 == 0:
        save((step, x, bytes(100_000)))
"""


def hurrying(text: str) -> str:
    """The same program, which takes its steps without a pause once there is a file HURRY where it works."""
    pause = "time.sleep(0.02)"
    assert pause in text
    return "import os\n" + text.replace(pause, "time.sleep(0.0 if os.path.exists('HURRY') else 0.02)")


IN_PLACE = _LOOP.format(
    save="""
def save(state):
    # The mistake: the only checkpoint is emptied before the new one is there.
    with open(PATH, "wb") as file:
        pickle.dump(state, file)
"""
)

REPLACED = _LOOP.format(
    save="""
def save(state):
    with open(PATH + ".tmp", "wb") as file:
        pickle.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(PATH + ".tmp", PATH)
"""
)

FORGIVING = IN_PLACE.replace(
    """if os.path.exists(PATH):
    with open(PATH, "rb") as file:
        start, x, _ = pickle.load(file)
""",
    """try:
    with open(PATH, "rb") as file:
        start, x, _ = pickle.load(file)
except Exception:
    pass
""",
)
"""The second mistake: whatever is wrong with the checkpoint, begin from zero."""

TWO_FILES = _LOOP.format(
    save="""
def save(state):
    with open("ckpt.x.tmp", "wb") as file:
        pickle.dump(state[1], file)
    os.replace("ckpt.x.tmp", "ckpt.x")
    with open(PATH + ".tmp", "wb") as file:
        pickle.dump(state, file)
    os.replace(PATH + ".tmp", PATH)
"""
).replace(
    "start, x, _ = pickle.load(file)\n", "start, x, _ = pickle.load(file)\n    x = pickle.load(open('ckpt.x', 'rb'))\n"
)
"""Each file is whole, but the two may be of different saves."""

WITH_LIBRARY = """
import sys, time
import numpy as np
import lastgood

x = np.zeros(20_000)
run = lastgood.Run({"x": x}, every=10)
for step in run.steps(int(sys.argv[1])):
    x += np.sqrt(step)
    print(f"step {step} x {x[0]:.17g}", flush=True)
    time.sleep(0.02)
"""
