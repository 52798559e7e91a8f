"""torch.distributed.checkpoint under torchrun: the newest directory that has its metadata is loaded at the start."""

import time

STARTED = time.monotonic()

import os  # noqa: E402
import shutil  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from peers.states import make_state  # noqa: E402

from restarts import events  # noqa: E402


def main() -> None:
    torch.set_num_threads(1)
    events.note("started", at=STARTED)
    events.note("imported")
    store, every = Path(os.environ["BENCH_STORE"]), int(os.environ["BENCH_EVERY"])
    store.mkdir(exist_ok=True)
    dist.init_process_group("gloo")
    state = make_state("transformer", float(os.environ["BENCH_SCALE"]))
    events.note("made")
    saved = max((int(path.parent.name) for path in store.glob("*/.metadata")), default=0)
    if saved:
        tree = state.tree()
        dcp.load(tree, checkpoint_id=store / str(saved))
        state.take(tree)
    events.note("loaded", saved)
    for step in range(saved + 1, 1_000_000):
        state.compute()
        state.update()
        events.note("step", step)
        if step % every == 0:
            dcp.save(state.tree(), checkpoint_id=store / str(step))
            shutil.rmtree(store / str(step - 2 * every), ignore_errors=True)


main()
