"""Where a program saves and loads, and what it puts into what it saves. Pure."""

import ast
import re
from functools import cached_property

import msgspec

from lastgood.audit.python.flow import Flow
from lastgood.audit.python.tree import Tree, last, written
from lastgood.audit.python.values import PathParts, Values

WEIGHTS, OPTIMIZER, PROGRESS, RANDOM, WHOLE, UNKNOWN = "weights", "optimizer", "progress", "random", "whole", "unknown"
"""What a checkpoint holds. WHOLE: a framework saves all that it knows; UNKNOWN: the file does not tell."""

_BY_FUNCTION = {
    "torch.save": (0, 1, ("obj", "f")),
    "paddle.save": (0, 1, ("obj", "path")),
    "numpy.save": (1, 0, ("arr", "file")),
    "numpy.savez": (1, 0, ("", "file")),
    "numpy.savez_compressed": (1, 0, ("", "file")),
    "jax.numpy.save": (1, 0, ("arr", "file")),
    "pickle.dump": (0, 1, ("obj", "file")),
    "dill.dump": (0, 1, ("obj", "file")),
    "cloudpickle.dump": (0, 1, ("obj", "file")),
    "joblib.dump": (0, 1, ("value", "filename")),
    "safetensors.torch.save_file": (0, 1, ("tensors", "filename")),
    "safetensors.numpy.save_file": (0, 1, ("tensors", "filename")),
    "safetensors.torch.save_model": (0, 1, ("model", "filename")),
    "torch_xla.core.xla_model.save": (0, 1, ("data", "file_or_path")),
}
"""Which argument is saved, and which is the file; with their names."""
_WEIGHTS_METHODS = frozenset({"save_pretrained", "save_weights", "save_lora_weights", "save_model"})
_WHOLE_METHODS = frozenset({"save_checkpoint", "save_state", "save_train_state", "async_save_checkpoint"})
_WHOLE_FUNCTIONS = (
    "torch.distributed.checkpoint.save",
    "torch.distributed.checkpoint.async_save",
    "torch.distributed.checkpoint.save_state_dict",
    "torch.distributed.checkpoint.state_dict_saver.save",
    "torch.distributed.checkpoint.state_dict_saver.async_save",
    "torchsnapshot.Snapshot.take",
    "torchsnapshot.Snapshot.async_take",
)
_OPEN_SAVE = re.compile(r"save|dump|snapshot|checkpoint|write_ckpt|ckpt", re.IGNORECASE)
_NO_SAVE = re.compile(
    r"savefig|save_image|save_(?:video|audio|fig|plot|img|hyper|config|args|metric|log|result|pred|json|csv|grid|dir|path|loss|sample"
    r"|name|hist|text|every|steps?|freq|interval|iter|epoch)|get_|load|is_|should|json\.dump|yaml|imsave|savetxt|savemat|writer"
    r"|ima?ge?\.|fig\w*\.|plot|tokenizer|processor|_config\.|to_disk|apply_|Image|PIL|plt\.|matplotlib|checkpoint_sequential|(?:gradient|activation)_checkpoint|checkpoint_wrapper|utils\.checkpoint|ckpt_path|wandb",
    re.IGNORECASE,
)
_LOADS = re.compile(
    r"(?:^|\.)(?:load_state_dict|load_checkpoint|load_state|load_weights|restore\w*|load_model|load_ckpt|load_train_state|resume\w*"
    r"|load_from_checkpoint|set_state_dict|load_latest\w*|maybe_load\w*|auto_resume\w*|load_snapshot\w*|load_training_state)\Z"
)
_LOAD_FUNCTIONS = frozenset(
    """torch.load paddle.load numpy.load jax.numpy.load pickle.load dill.load joblib.load safetensors.torch.load_file
    safetensors.numpy.load_file torch.distributed.checkpoint.load torch.distributed.checkpoint.load_state_dict
    safetensors.torch.load_model safetensors.safe_open""".split()
)
_MAY_LOAD = re.compile(r"load|restore|resume|continue", re.IGNORECASE)
_NO_LOAD = re.compile(
    r"load(?:er|ing)|upload|download|payload|workload|dataset|data\b|_data|dotenv|json|yaml|toml|csv|config|cfg|image|img|token"
    r"|vocab|label|embedding|metric|prompt|\.hub|font|feature|split|txt|text|load_(?:train|val|test|pretrained|corpus|sample|batch|npy)",
    re.IGNORECASE,
)
_DATA = re.compile(
    r"data|train[-_.x\d]|test|valid|feature|label|vocab|target|input|mean|std|pretrain|image", re.IGNORECASE
)
_OPTIMIZER_NAME = re.compile(r"optim|(?:\b|_)opt(?:\b|_|\d|(?-i:[A-Z]))|sched|adam|\bsgd|lr_?s|scaler", re.IGNORECASE)
_WHOLE_NAME = re.compile(
    r"state$|checkpoint|ckpt|snapshot|trainer|engine|agent|accelerator|everything|all_", re.IGNORECASE
)
_MODEL_NAME = re.compile(
    r"model|net\b|net$|network|encoder|decoder|generator|discriminator|netg|netd|policy|actor|critic|weights|backbone|classifier",
    re.IGNORECASE,
)
_PROGRESS = re.compile(r"epoch|step|iter|episode|round|best|loss|acc", re.IGNORECASE)
_RANDOM_STATE = re.compile(r"rng|random_state|getstate|get_state\b|seed_state", re.IGNORECASE)
CHECKPOINT_WORD = re.compile(
    r"ckpt|checkpoint|chkpt|snapshot|epoch|step|iter|resume|restart|model|weights|\.pth?\b|\.tar\b", re.IGNORECASE
)


class Save(msgspec.Struct, frozen=True):
    call: ast.Call
    how: str
    """Its dotted name, such as "torch.save"."""
    value: ast.expr | None
    target: ast.expr | None
    """The file; None if that is not an argument."""
    holds: frozenset[str]
    is_plain: bool
    """It writes to the file of that name itself, with nothing around it that makes the file whole or absent."""

    @property
    def is_weights_only(self) -> bool:
        return WEIGHTS in self.holds and self.holds <= {WEIGHTS, PROGRESS}

    @property
    def is_for_resuming(self) -> bool:
        """It holds more than a model."""
        return bool(self.holds & {OPTIMIZER, WHOLE})


class Load(msgspec.Struct, frozen=True):
    call: ast.Call
    how: str
    source: ast.expr | None
    is_file: bool
    """It reads a file; otherwise it puts into an object what was read, or another module does what its name says."""


class Checkpoints:
    """All saves and loads of a program, in the order of its text."""

    def __init__(self, tree: Tree, flow: Flow, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._values = values

    @cached_property
    def saves(self) -> list[Save]:
        return [save for call in self._tree.calls if (save := self._save(call)) is not None]

    @cached_property
    def loads(self) -> list[Load]:
        """Of checkpoints, as far as their names tell; not of data."""
        return [load for call in self._tree.calls if (load := self._load(call)) is not None]

    @cached_property
    def in_training(self) -> list[Save]:
        """Saves that are made again and again while it trains."""
        return [
            save
            for save in self.saves
            if self._flow.is_in_training(save.call) and not self._flow.ends_behind(save.call)
        ]

    def path(self, node: ast.expr) -> PathParts:
        return PathParts(self._tree, self._values, node)

    def is_of_the_best(self, save: Save) -> bool:
        """It is made when a measure is better than before: a result, not a point to go on from."""
        tests = " ".join(written(test) for test in self._flow.tests_around(save.call))
        if re.search(r"best|improve|lowest|highest|\bmin_|\bmax_(?:acc|f1|score)|early", tests, re.IGNORECASE):
            return True
        return save.target is not None and "best" in " ".join(self.path(save.target).literals).lower()

    def is_numbered(self, save: Save) -> bool:
        """Each save has a name of its own, or is copied to one."""
        if save.target is None:
            return False
        parts = [self.path(target) for target in (save.target, *self._copies(save))]
        return any(part.counters or any(map(self._flow.is_in_training, part.times)) for part in parts)

    def is_copied(self, save: Save) -> bool:
        return bool(self._copies(save))

    def _copies(self, save: Save) -> list[ast.expr]:
        """Names to which files are copied beside a save."""
        calls = self._tree.calls_in(self._tree.function_of(save.call) or self._tree.module)
        names = ("shutil.copy", "shutil.copy2", "shutil.copyfile")
        return [call.args[1] for call in calls if self._tree.name_of(call.func) in names and len(call.args) >= 2]

    def is_renamed(self, save: Save) -> bool:
        """What is written is given its name afterwards, or the one before is moved away."""
        scope: ast.AST = self._tree.function_of(save.call) or self._tree.module
        for call in self._tree.calls_in(scope):
            name = self._tree.name_of(call.func)
            if call in self.renames or name.endswith(".rename") or (name.endswith(".replace") and len(call.args) == 1):
                return True
            if last(name) in ("system", "run", "call", "check_call") and re.search(r"\bmv\b", written(call)):
                return True
        words = [] if save.target is None else [*self.path(save.target).literals, written(save.target)]
        return any(re.search(r"tmp|temp(?!erature|late)|\.part", word, re.IGNORECASE) for word in words)

    def is_same_file(self, save: Save, load: Load) -> bool:
        """What it writes is read again by the same program, by the same name."""
        if save.target is None or load.source is None or not load.is_file:
            return False
        return bool(self._keys(save.target) & self._keys(load.source))

    @cached_property
    def written(self) -> list[ast.expr]:
        """Files that are saved while it trains, and names that files are given."""
        renamed = [call.args[1] for call in self.renames if len(call.args) == 2]
        return [save.target for save in self.in_training if save.target is not None] + renamed

    @cached_property
    def renames(self) -> list[ast.Call]:
        names = ("os.replace", "os.rename", "shutil.move")
        return [call for call in self._tree.calls if self._tree.name_of(call.func) in names]

    def is_own(self, load: Load) -> bool:
        """It reads what the program itself has saved."""
        if load.source is None:
            return False
        return any(self._keys(target) & self._keys(load.source) for target in self.written)

    def _keys(self, node: ast.expr) -> set[str]:
        """A path in the words of the program, at each step of following it."""
        names = {written(node)} if not isinstance(node, ast.Name | ast.Call) else set()
        return (names | {written(value) for value in map(self._file_of, self._values.of(node))}) - {""}

    def _file_of(self, node: ast.expr) -> ast.expr:
        """The path behind a file that `open` gives."""
        if isinstance(node, ast.Call) and last(self._tree.name_of(node.func)) in ("open", "GFile") and node.args:
            return node.args[0]
        return node

    def _save(self, call: ast.Call) -> Save | None:
        name = self._tree.name_of(call.func)
        method = last(name)
        if name in _BY_FUNCTION:
            return self._by_function(call, name)
        if name in _WHOLE_FUNCTIONS:
            return Save(call, name, None, None, frozenset({WHOLE}), is_plain=False)
        if any(
            self._tree.may_call(call, function) for function in self._tree.functions.get(method, ())
        ) or not isinstance(call.func, ast.Name | ast.Attribute):
            # What a function of this file saves is seen in the function.
            return None
        receiver = name.rpartition(".")[0]
        first = call.args[0] if call.args else None
        if _NO_SAVE.search(name):
            return None
        if method in _WEIGHTS_METHODS and receiver:
            return Save(call, name, None, first, frozenset({WEIGHTS}), is_plain=False)
        if method == "save" and "accelerator" in receiver.lower() and len(call.args) >= 2:
            return Save(call, name, call.args[0], call.args[1], self._holds(call.args[0]), is_plain=True)
        if method in _WHOLE_METHODS:
            return Save(call, name, None, None, frozenset({WHOLE}), is_plain=False)
        if _OPEN_SAVE.search(method):
            return Save(call, name, None, None, frozenset({UNKNOWN}), is_plain=False)
        return None

    def _by_function(self, call: ast.Call, name: str) -> Save:
        at_value, at_target, (value_name, target_name) = _BY_FUNCTION[name]
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        value = call.args[at_value] if len(call.args) > at_value else given.get(value_name)
        target = call.args[at_target] if len(call.args) > at_target else given.get(target_name)
        if name.startswith("numpy.savez"):
            holds = frozenset({UNKNOWN})
        else:
            holds = self._holds(value) if value is not None else frozenset({UNKNOWN})
        if target is not None:
            files = [self._file_of(found) for found in self._values.of(target)]
            target = files[0] if len(files) == 1 else target
        return Save(call, name, value, target, holds, is_plain=True)

    def _holds(self, value: ast.expr) -> frozenset[str]:
        values, on_the_way = self._values.followed(value)
        found: set[str] = set()
        for one in values:
            found |= self._holds_one(one)
        # What is put into a dictionary after it was made.
        for name in {self._tree.name_of(node) for node in on_the_way}:
            if name in self._tree.items_set:
                found |= self._of_pairs(self._tree.items_set[name])
        if len(found) > 1 and self._is_empty(values):
            found.discard(UNKNOWN)
        if found == {UNKNOWN} and isinstance(value, ast.Name | ast.Attribute):
            # What it is made of is not seen; what it is called may tell.
            found = self._by_name(self._tree.name_of(value))
        return frozenset(found)

    def _is_empty(self, values: list[ast.expr]) -> bool:
        """All that it is set to are empty dictionaries, which are filled below."""
        return all(
            (isinstance(node, ast.Dict) and not node.keys)
            or (
                isinstance(node, ast.Call)
                and self._tree.name_of(node.func) == "dict"
                and not node.keywords
                and not node.args
            )
            for node in values
        )

    def _holds_one(self, node: ast.expr) -> set[str]:
        if isinstance(node, ast.Dict):
            pairs = [(written(key) if key else "**", inner) for key, inner in zip(node.keys, node.values, strict=True)]
            return self._of_pairs(pairs)
        if isinstance(node, ast.DictComp | ast.ListComp):
            return self._by_text(written(node))
        name = self._tree.name_of(node.func) if isinstance(node, ast.Call) else self._tree.name_of(node)
        if isinstance(node, ast.Call):
            if last(name) in ("dict", "OrderedDict", "Namespace", "SimpleNamespace"):
                pairs = [(keyword.arg or "**", keyword.value) for keyword in node.keywords]
                positional = set().union(*(self._holds(argument) for argument in node.args)) if node.args else set()
                return self._of_pairs(pairs) | positional
            if last(name) in ("state_dict", "get_model_state_dict", "parameters", "named_parameters"):
                return self._by_name(written(node))
            if self._tree.functions.get(last(name)):
                return {UNKNOWN}
            if last(name) in ("cpu", "to", "half", "module", "unwrap_model", "deepcopy", "copy", "unreplicate"):
                return self._by_name(written(node))
            return {UNKNOWN}
        return self._by_name(name)

    def _of_pairs(self, pairs: list[tuple[str, ast.expr]]) -> set[str]:
        found: set[str] = set()
        for key, inner in pairs:
            text = f"{key} {written(inner)}"
            if key == "**":
                found.add(UNKNOWN)
            elif _RANDOM_STATE.search(text):
                found.add(RANDOM)
            elif _OPTIMIZER_NAME.search(text):
                found.add(OPTIMIZER)
            elif "state_dict" in text or _MODEL_NAME.search(text):
                found.add(WEIGHTS)
            elif _PROGRESS.search(key):
                found.add(PROGRESS)
            elif _WHOLE_NAME.search(text):
                found.add(UNKNOWN)
        return found or {UNKNOWN}

    def _by_name(self, text: str) -> set[str]:
        if _OPTIMIZER_NAME.search(text):
            return {OPTIMIZER}
        if _WHOLE_NAME.search(text.replace("state_dict", "")):
            return {UNKNOWN}
        return {WEIGHTS} if _MODEL_NAME.search(text) or "state_dict" in text else {UNKNOWN}

    def _by_text(self, text: str) -> set[str]:
        return {WEIGHTS} if "state_dict" in text and not _OPTIMIZER_NAME.search(text) else {UNKNOWN}

    def _load(self, call: ast.Call) -> Load | None:
        name = self._tree.name_of(call.func)
        first = call.args[0] if call.args else next((keyword.value for keyword in call.keywords), None)
        if name in _LOAD_FUNCTIONS:
            if first is None:
                return Load(call, name, None, is_file=True)
            if self._is_data(name, call, first):
                return None
            files = [self._file_of(found) for found in self._values.of(first)]
            return Load(call, name, files[0] if len(files) == 1 else first, is_file=True)
        if last(name) in self._tree.functions:
            return None
        if _LOADS.search(name):
            return Load(call, name, first, is_file=False)
        return None

    def _is_data(self, name: str, call: ast.Call, source: ast.expr) -> bool:
        if name.startswith("torch.distributed"):
            return False
        parent = self._tree.parents.get(call)
        texts = [written(source)]
        if isinstance(parent, ast.Assign):
            texts.append(written(parent.targets[0]))
        text = " ".join([*texts, *self.path(source).literals])
        return bool(_DATA.search(text)) and not re.search(
            r"ckpt|checkpoint|resume|snapshot|state_dict", text, re.IGNORECASE
        )


def may_load(name: str) -> bool:
    """Whether a call of this name may load a checkpoint; not one that loads data, settings or the like."""
    return bool(_MAY_LOAD.search(last(name))) and not _NO_LOAD.search(name) and name not in _LOAD_FUNCTIONS
