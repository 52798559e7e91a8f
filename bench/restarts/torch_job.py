"""The plain loop: torch.save to a temporary name, flushed, renamed; the highest number is loaded at the start."""

import time

STARTED = time.monotonic()

import os  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402
from peers.states import make_state  # noqa: E402

from restarts import events  # noqa: E402


def main() -> None:
    torch.set_num_threads(1)
    events.note("started", at=STARTED)
    events.note("imported")
    store, every = Path(os.environ["BENCH_STORE"]), int(os.environ["BENCH_EVERY"])
    store.mkdir(exist_ok=True)
    state = make_state("transformer", float(os.environ["BENCH_SCALE"]))
    events.note("made")
    saved = max((int(path.stem) for path in store.glob("*.pt")), default=0)
    if saved:
        state.take(torch.load(store / f"{saved}.pt", weights_only=True))
    events.note("loaded", saved)
    for step in range(saved + 1, 1_000_000):
        state.compute()
        state.update()
        events.note("step", step)
        if step % every == 0:
            with (store / "new").open("wb") as file:
                torch.save(state.tree(), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(store / "new", store / f"{step}.pt")
            (store / f"{step - 2 * every}.pt").unlink(missing_ok=True)


main()
