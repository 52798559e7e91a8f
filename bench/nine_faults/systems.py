"""The ways of saving that are compared: how each is started, and where its newest checkpoint lies."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).parent / "jobs"


@dataclass(frozen=True)
class System:
    name: str
    title: str
    script: str
    newest: Callable[[Path], list[Path]]
    """The files of the newest complete checkpoint in a store."""
    packages: tuple[str, ...]
    """What has to be installed, by import name."""
    modules: tuple[str, ...]
    """What a start imports."""
    is_ours: bool = False
    is_launched: bool = False
    """Started by `lastgood run`, which restarts it by itself after a kill."""
    loaders: tuple[str, ...] = ("",)
    """Kinds of data loader to try for the order of samples."""

    def missing(self) -> list[str]:
        return [name for name in self.packages if importlib.util.find_spec(name) is None]

    def versions(self) -> dict[str, str]:
        return {name: importlib.metadata.version(_DISTRIBUTIONS.get(name, name)) for name in self.packages}

    def command(self, store: Path, *, restarts: bool) -> list[str]:
        """For a launched system: the whole command line. Its grace ends before the two seconds of F8 do."""
        option = [] if restarts else ["--no-restart"]
        head = [sys.executable, "-m", "lastgood", "run", "--job", str(store), "--grace", "1.5s", *option]
        return [*head, "--", sys.executable, str(JOBS / self.script)]


_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def _newest_of_ours(store: Path) -> list[Path]:
    committed = sorted(path.parent for path in (store / "checkpoints").glob("*/manifest.json"))
    return sorted(committed[-1].iterdir())


def _only_file(store: Path) -> list[Path]:
    return [store / "checkpoint.pt"]


def _last_ckpt(store: Path) -> list[Path]:
    return [store / "last.ckpt"]


def _highest_number(pattern: str) -> Callable[[Path], list[Path]]:
    def newest(store: Path) -> list[Path]:
        found = max(store.glob(pattern), key=lambda path: int("".join(c for c in path.name if c.isdigit())))
        return sorted(found.iterdir()) if found.is_dir() else [found]

    return newest


_TORCH = ("torch", "sklearn")
_OURS = ("lastgood", *_TORCH)
_LOOP = ("torch", "sklearn.datasets")
_RUN = (*_LOOP, "lastgood.runtime.run", "lastgood.frameworks.torch_adapter")

SYSTEMS = (
    System(
        "lastgood-run",
        "`lastgood run`",
        "lastgood_job.py",
        _newest_of_ours,
        _OURS,
        _RUN,
        is_ours=True,
        is_launched=True,
        loaders=("", "plain"),
    ),
    System(
        "lastgood",
        "`lastgood.Run` alone",
        "lastgood_job.py",
        _newest_of_ours,
        _OURS,
        _RUN,
        is_ours=True,
        loaders=("", "plain"),
    ),
    System("torch-in-place", "`torch.save` in place", "torch_in_place_job.py", _only_file, _TORCH, _LOOP),
    System(
        "torch-replace",
        "`torch.save`, `os.replace`",
        "torch_replace_job.py",
        _highest_number("step_*.pt"),
        _TORCH,
        _LOOP,
    ),
    System(
        "dcp",
        "DCP sync, newest directory",
        "dcp_job.py",
        _highest_number("step_*"),
        _TORCH,
        (*_LOOP, "torch.distributed.checkpoint.state_dict"),
    ),
    System(
        "trainer",
        "Hugging Face Trainer",
        "trainer_job.py",
        _highest_number("checkpoint-*"),
        (*_TORCH, "transformers", "accelerate"),
        (*_LOOP, "transformers.trainer", "transformers.modeling_utils"),
    ),
    System("lightning", "Lightning", "lightning_job.py", _last_ckpt, (*_TORCH, "lightning"), (*_LOOP, "lightning")),
)
