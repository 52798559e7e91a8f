"""A random walk that can be computed in three ways: without checkpoints, with a checkpoint of its own every few steps as
most programs do it, and with lastgood. The loop is the same."""

import hashlib
import os
import pickle
import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from lastgood.core import layout

from .slurm import SlurmCluster
from .work import Work

PROGRAM = '''
import hashlib, json, os, pickle, signal, sys, time
import numpy as np

settings = json.loads(sys.argv[1])
rank, world = int(os.environ["SLURM_PROCID"]), settings["ranks"]
get = os.environ.get

def without_checkpoints():
    yield from range(1, settings["steps"] + 1)

def own_checkpoints():
    """The newest one is loaded; a temporary file is renamed into place every n steps."""
    done, path = 0, f"{settings['checkpoints']}/rank-{rank}.ckpt"
    if os.path.exists(path):
        with open(path, "rb") as file:
            done, x[:], random = pickle.load(file)
        np.random.set_state(random)
    for step in range(done + 1, settings["steps"] + 1):
        yield step
        if step % settings["every"] == 0:
            with open(path + ".tmp", "wb") as file:
                pickle.dump((step, x, np.random.get_state()), file)
            os.replace(path + ".tmp", path)

def with_lastgood():
    import lastgood
    yield from lastgood.Run({"x": x}, every=settings["every"]).steps(settings["steps"])

def strike(fault):
    """What the program, or one rank of it, does to itself, once or always."""
    if not fault["is_always"]:
        if os.path.exists(fault["mark"]):
            return
        open(fault["mark"], "w").close()
    if fault["how"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault["how"] == "hang":
        time.sleep(1000)
    if fault["how"] == "raise":
        raise KeyError("a mistake in the program")

if world > 1:
    import torch, torch.distributed as dist
    names = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "LASTGOOD_ATTEMPT", "LASTGOOD_LAUNCH")
    meeting = "-".join([get("MEETING"), *(get(name, "") for name in names)])
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
x = np.zeros(settings["size"])
np.random.seed(settings["seed"] + rank)
if settings["gate"]:
    open(f"{settings['gate']}.{settings['way']}", "w").close()
    while not os.path.exists(settings["gate"]):
        time.sleep(0.02)
for step in {"plain": without_checkpoints, "own": own_checkpoints, "lastgood": with_lastgood}[settings["way"]]():
    x += np.random.standard_normal(x.size)
    if world > 1:
        total = torch.tensor([float(x[0])], dtype=torch.float64)
        dist.all_reduce(total)
        x[1] = float(total[0])
    print(f"step {step} of rank {rank} in attempt {get('LASTGOOD_ATTEMPT', '-')}", flush=True)
    if settings["fault"] and (settings["fault"]["rank"], settings["fault"]["step"]) == (rank, step):
        strike(settings["fault"])
    time.sleep(settings["pause_s"])
digest = hashlib.sha256(x.tobytes()).hexdigest()
path = os.path.join(settings["results"], f"rank-{rank}")
with open(path + ".new", "w") as file:
    file.write(digest)
os.replace(path + ".new", path)
if world > 1:
    dist.destroy_process_group()
'''


class Way(StrEnum):
    PLAIN = "plain"
    OWN = "own"
    LASTGOOD = "lastgood"


class Walk(Work):
    """One walk on the cluster, in one of the three ways."""

    def __init__(
        self,
        cluster: SlurmCluster,
        directory: Path,
        way: Way,
        *,
        steps: int = 120,
        pause_s: float = 0.1,
        every: int = 10,
        ranks: int = 1,
        seed: int = 1234,
        gate: str = "",
        fault: Mapping[str, Any] | None = None,
    ) -> None:
        """`fault`: how, step, rank, is_always. `gate`: no step is done before this file is there."""
        super().__init__(cluster, directory, steps=steps, pause_s=pause_s, every=every, ranks=ranks, size=1000)
        self.way = way
        self.checkpoints = directory / "checkpoints"
        self.checkpoints.mkdir()
        self.program.write_text(PROGRAM)
        self.settings |= {
            "way": way.value,
            "seed": seed,
            "gate": gate,
            "checkpoints": os.fspath(self.checkpoints),
            "fault": fault and {**fault, "mark": os.fspath(directory / "struck")},
        }

    def batch(self, *run_options: str) -> str:
        """The batch script: its last line is `srun`, or `lastgood run` with these options."""
        if self.way is Way.LASTGOOD:
            return self.script(*run_options)
        return self.script(last=shlex.join(self.command()))

    def right_answers(self) -> list[str]:
        """Those of an uninterrupted run, computed here."""
        s = self.settings
        walks = [np.zeros(s["size"]) for _ in range(self.ranks)]
        streams = [np.random.RandomState(s["seed"] + rank) for rank in range(self.ranks)]
        for _ in range(s["steps"]):
            for walk, stream in zip(walks, streams, strict=True):
                walk += stream.standard_normal(walk.size)
            if self.ranks > 1:
                total = sum(float(walk[0]) for walk in walks)
                for walk in walks:
                    walk[1] = total
        return [hashlib.sha256(walk.tobytes()).hexdigest() for walk in walks]

    @property
    def is_done(self) -> bool:
        """All steps are done, by the result that it has left."""
        return all((self.results / f"rank-{rank}").exists() for rank in range(self.ranks))

    def kept(self) -> int:
        """The step that the next start would go on after."""
        if self.way is Way.PLAIN:
            return 0
        if self.way is Way.OWN:
            return self._kept_by_itself()
        names = [path.parent.name for path in (self.job / layout.CHECKPOINTS_DIR).glob(f"*/{layout.MANIFEST_FILE}")]
        return max((parsed[0] for name in names if (parsed := layout.parse_checkpoint_name(name))), default=0)

    def _kept_by_itself(self) -> int:
        path = self.checkpoints / "rank-0.ckpt"
        # Written by the program above.
        return int(pickle.loads(path.read_bytes())[0]) if path.exists() else 0
