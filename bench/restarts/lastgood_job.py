"""Training with lastgood.Run."""

import time

STARTED = time.monotonic()

import os  # noqa: E402

import torch  # noqa: E402
from peers.states import make_state  # noqa: E402

import lastgood  # noqa: E402
from restarts import events  # noqa: E402


def main() -> None:
    torch.set_num_threads(1)
    events.note("started", at=STARTED)
    events.note("imported")
    state = make_state("transformer", float(os.environ["BENCH_SCALE"]))
    events.note("made")
    run = lastgood.Run(state.objects(), job=os.environ["BENCH_STORE"], every=int(os.environ["BENCH_EVERY"]))
    events.note("loaded", run.step)
    for step in run.steps(1_000_000):
        state.compute()
        state.update()
        events.note("step", step)


main()
