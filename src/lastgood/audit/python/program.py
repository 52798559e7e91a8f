"""A Python program as rules see it: how it saves, resumes and stops, from its text alone."""

import ast
import re
import sys
from functools import cached_property

from lastgood.audit.python.checkpoints import Checkpoints, Load, Save, may_load
from lastgood.audit.python.flow import Flow
from lastgood.audit.python.signals import Handler, handlers_in, short
from lastgood.audit.python.tree import Tree, last, written
from lastgood.audit.python.values import PathParts, Values
from lastgood.audit.source import Source, Span

_OWNERS = {
    "lastgood": ("lastgood",),
    "lightning": ("pytorch_lightning", "lightning", "lightning.pytorch", "lightning.fabric"),
    "transformers": ("transformers", "trl"),
}
_TRAINER = re.compile(r"(?:^|\.)\w*Trainer(?:\(\))?\Z")
_LEAVE_SIGNALS_ALONE = frozenset(
    """
    PIL absl accelerate apex av bitsandbytes boto3 click cupy cv2 datasets deepspeed diffusers einops evaluate fire flax fsspec gym gymnasium
    h5py haiku huggingface_hub imageio jax joblib jsonargparse keras librosa matplotlib ml_collections mpi4py nltk networkx numba
    numpy omegaconf optax optuna orjson packaging pandas peft plotly psutil pyarrow pydantic requests safetensors scipy seaborn
    sentencepiece setproctitle skimage sklearn soundfile statsmodels sympy tabulate tensorboard tensorboardX tensorflow termcolor
    tiktoken timm tokenizers toml torch torch_geometric torch_scatter torch_sparse torchaudio torchdata torchinfo torchmetrics
    torchsummary torchtext torchvision tqdm transformers triton trl wandb webdataset xarray yaml zarr
    """.split()
)
"""Packages that install no handlers that save."""
_STARTS = frozenset({"fit", "train", "learn", "run", "main", "app", "cli", "fire", "Fire"})
"""Calls at the top level of a program, of something that it imports."""
_GIVEN = re.compile(
    r"(?:ckpt|checkpoint|snapshot|weights|load)_?(?:path|file|from|name)|from_(?:ckpt|checkpoint)|pretrained",
    re.IGNORECASE,
)
_DOES_THE_WORK = re.compile(
    r"load|restore|resume|train|fit\b|run|main|solve|experiment|engine|checkpoint|ckpt|saver|pipeline|learn|launch|execute",
    re.IGNORECASE,
)


class Program:
    """Raises SyntaxError for what is no Python."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.syntax = Tree(source)

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def tree(self) -> ast.Module:
        return self.syntax.module

    def span(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> Span:
        return self.syntax.span(node)

    @cached_property
    def values(self) -> Values:
        return Values(self.syntax)

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.syntax)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.syntax, self.flow, self.values)

    @property
    def saves(self) -> list[Save]:
        return self.checkpoints.saves

    @property
    def loads(self) -> list[Load]:
        return self.checkpoints.loads

    def path_parts(self, node: ast.expr) -> PathParts:
        return self.checkpoints.path(node)

    @cached_property
    def is_main(self) -> bool:
        """It is started itself: no library, no test, no notebook."""
        # Files of a flat collection have their directories in their names.
        *above, name = re.split(r"[/\\]|__", self.path.lower())
        if name.startswith(("test_", "conftest")) or name.endswith("_test.py") or above[-1:] in (["tests"], ["test"]):
            return False
        if "get_ipython" in self.syntax.called or b"# In[" in self.source.data:
            return False
        return any(self._starts_something(statement) for statement in self.syntax.module.body)

    @cached_property
    def is_job(self) -> bool:
        """It is started itself, and trains."""
        return self.is_main and self.flow.has_training and not self.uses("lastgood")

    @property
    def is_of_minutes(self) -> bool:
        """It trains on data that are done with in minutes, and can use no others."""
        others = any(word in self.source.data for word in (b"CIFAR", b"ImageNet", b"ImageFolder"))
        return not others and any(name.endswith("MNIST") for name in self.syntax.called)

    def uses(self, owner: str) -> bool:
        """True for "lastgood", "lightning", "transformers" or the name of a module, where it is imported."""
        modules = _OWNERS.get(owner, (owner,))
        return any(
            module == name or module.startswith(name + ".") for module in self.syntax.modules for name in modules
        )

    @cached_property
    def trainers(self) -> list[ast.Call]:
        """Trainers of Lightning and of transformers, where they are made: they own the loop and its checkpoints."""
        if not (self.uses("lightning") or self.uses("transformers")):
            return []
        return [call for call in self.syntax.calls if _TRAINER.search(self.syntax.name_of(call.func))]

    @cached_property
    def is_owned(self) -> bool:
        """A framework, or our own library, decides when and what is saved."""
        return bool(self.trainers) or self.uses("lastgood") or self.uses("ray")

    @cached_property
    def optimizers(self) -> list[ast.Call]:
        """Steps of an optimizer."""
        return [call for call in self.flow.steps if last(self.syntax.name_of(call.func)) in ("step", "apply_gradients")]

    @cached_property
    def handlers(self) -> list[Handler]:
        return handlers_in(self.syntax, self.values)

    def handles_signal(self, name: str) -> bool | None:
        """Whether it does something of its own when this signal comes ("USR1" or "SIGUSR1"); None: its text does not tell.

        False only if no other module could do it: one of its own project, or a framework that handles signals.
        """
        for handler in self.handlers:
            if short(name) in handler.signals:
                return True
        if any(not handler.signals for handler in self.handlers):
            return None
        if self.uses("lastgood"):
            return True
        return None if self._strange_modules else False

    @cached_property
    def loads_anything(self) -> bool:
        """It may go on from something that was saved. False only if all its work is in this file, and nothing there loads."""
        if self.loads or self.trainers or self.uses("lastgood"):
            return True
        if any(may_load(self.syntax.name_of(call.func)) for call in self.syntax.calls):
            return True
        words = self.source.data
        if any(word in words for word in (b"resume", b"restart", b"warm_start", b"initial_epoch", b"BackupAndRestore")):
            return True
        return any(self._is_elsewhere(call) for call in self.syntax.calls) or self._tells_of_a_checkpoint()

    def _tells_of_a_checkpoint(self) -> bool:
        """Something of another module is given a checkpoint by name."""
        for call in self.syntax.calls:
            keys = [keyword.arg or "" for keyword in call.keywords]
            if any(_GIVEN.search(key) for key in keys):
                return True
        return any(
            isinstance(key, ast.Constant) and isinstance(key.value, str) and _GIVEN.search(key.value)
            for node in self.syntax.dicts
            for key in node.keys
        )

    def _is_elsewhere(self, call: ast.Call) -> bool:
        """Work that another module of the same project does."""
        name = self.syntax.name_of(call.func)
        first = name.lstrip(".").partition(".")[0]
        return (name.startswith(".") or first in self._strange_modules) and bool(
            _DOES_THE_WORK.search(name) and not re.search(r"loader|dataset|data\Z", last(name), re.IGNORECASE)
        )

    @cached_property
    def _strange_modules(self) -> set[str]:
        """Names of modules that are neither Python's own nor known to leave signals alone, "" for relative ones."""
        first = {module.partition(".")[0] for module in self.syntax.modules}
        return {name for name in first if name not in sys.stdlib_module_names and name not in _LEAVE_SIGNALS_ALONE}

    def _starts_something(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.If(test=test) if "__name__" in written(test):
                return True
            case ast.For() | ast.While() | ast.With():
                return True
            case ast.Expr(value=ast.Call(func=func)):
                name = last(self.syntax.name_of(func))
                return name in self.syntax.functions or name in _STARTS
        return False
