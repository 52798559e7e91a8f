"""How a program picks the newest of its checkpoints. Pure."""

import ast
import re
from collections.abc import Iterator

import msgspec

from lastgood.audit.python.checkpoints import CHECKPOINT_WORD
from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import last, written
from lastgood.audit.python.values import PathParts

_LISTS = frozenset({"glob", "iglob", "rglob", "listdir", "scandir", "iterdir"})
_TIMES = re.compile(r"getmtime|getctime|st_mtime|st_ctime|getatime")
_NOT_CHECKPOINTS = re.compile(
    r"\.(?:jpe?g|png|csv|txt|json|wav|tif|nii|mp4|log|ya?ml|gz|npz)\b|image|img|frame|data_|dataset|fold\b",
    re.IGNORECASE,
)
_LOADS_CHECKPOINT = re.compile(
    r"(?:torch\.load|load_state_dict|load_checkpoint|load_from_checkpoint|restore|load_weights|load_state|load_model|from_pretrained|fabric\.load)\Z"
)
_TRAINS_WITH = frozenset({"resume_from_checkpoint", "ckpt_path", "resume", "checkpoint", "ckpt"})


class Pick(msgspec.Struct, frozen=True):
    """The last one of a list of files."""

    node: ast.expr
    listing: ast.Call
    """What lists the files."""
    key: str | None
    """By what they are compared: "time", "other"; None: as they are."""


def picks(program: Program) -> list[Pick]:
    """`max(files)`, `sorted(files)[-1]`, and `files.sort()` with `files[-1]` behind it."""
    return list(_picks(program))


def is_for_checkpoints(program: Program, pick: Pick) -> bool:
    """What is picked is loaded to go on from, as far as names tell."""
    text = " ".join(
        [written(pick.node), written(pick.listing)]
        + [part for argument in pick.listing.args for part in program.path_parts(argument).literals]
    )
    function = program.syntax.function_of(pick.node)
    around = "" if function is None else function.name
    statement = next((node for node in program.syntax.above(pick.node) if isinstance(node, ast.stmt)), None)
    if isinstance(statement, ast.Assign):
        around += " " + written(statement.targets[0])
    if any(pick.node in program.values.within(load.source) for load in program.loads if load.source is not None):
        return True
    if _NOT_CHECKPOINTS.search(text) or not CHECKPOINT_WORD.search(f"{text} {around}"):
        return False
    return any(_LOADS_CHECKPOINT.search(program.syntax.name_of(call.func)) for call in program.syntax.calls) or any(
        keyword.arg in _TRAINS_WITH for call in program.syntax.calls for keyword in call.keywords
    )


def padding(program: Program) -> bool | None:
    """Whether names of checkpoints are in order as text: numbers with leading zeros, or times; None if it is not told."""
    if program.trainers:
        # checkpoint-500, checkpoint-1000; epoch=9-step=100
        return False
    if any(program.path_parts(target).times for target in program.checkpoints.written):
        return True
    paths = [program.path_parts(target) for target in program.checkpoints.written]
    for save in program.saves:
        if not save.is_plain:
            # Some function's arguments: one of them may be the path.
            paths += [parts for parts in map(program.path_parts, save.call.args) if _has_suffix(parts)]
    numbered = [parts for parts in paths if parts.counters]
    if not numbered:
        return None
    return not any(parts.unpadded for parts in numbered)


def _has_suffix(parts: PathParts) -> bool:
    return any(re.search(r"\.(?:pth?|ckpt|tar|pkl|npz|h5|bin|safetensors)\b", text) for text in parts.literals)


def _picks(program: Program) -> Iterator[Pick]:
    for call in program.syntax.calls:
        name = program.syntax.name_of(call.func)
        if name == "max" and len(call.args) == 1:
            yield from _pick(program, call, call.args[0], call)
        elif name == "sorted" and len(call.args) >= 1:
            taken = _takes_newest(program, call, call)
            if taken is not None:
                yield from _pick(program, taken, call.args[0], call)
        elif last(name) == "sort" and isinstance(call.func, ast.Attribute) and not call.args:
            taken = _takes_newest(program, call.func.value, call)
            if taken is not None:
                yield from _pick(program, taken, call.func.value, call)


def _pick(program: Program, node: ast.expr, files: ast.expr, order: ast.Call) -> Iterator[Pick]:
    function = program.syntax.function_of(node)
    names = {written(files), *(written(inner.value) for inner in [node] if isinstance(inner, ast.Subscript))}
    if any(
        written(loop.iter) in names and loop.lineno >= order.lineno
        for loop in program.syntax.loops
        if isinstance(loop, ast.For) and program.syntax.function_of(loop) is function
    ):
        # All of them are looked at, one by one.
        return
    listings = [
        inner
        for inner in program.values.within(files)
        if isinstance(inner, ast.Call) and last(program.syntax.name_of(inner.func)) in _LISTS
    ]
    # Names that are taken apart first are compared as numbers.
    is_apart = any(
        isinstance(inner, ast.Call)
        and last(program.syntax.name_of(inner.func)) in ("int", "float", "split", "findall", "match", "search")
        for inner in program.values.within(files)
    )
    if not listings or is_apart:
        return
    key = next((keyword.value for keyword in order.keywords if keyword.arg == "key"), None)
    kind = None
    if key is not None:
        text = " ".join(written(value) for value in program.values.of(key))
        bodies = program.syntax.functions.get(last(program.syntax.name_of(key)), [])
        kind = "time" if _TIMES.search(" ".join([text, *map(written, bodies)])) else "other"
    yield Pick(node, listings[0], kind)


def _takes_newest(program: Program, ordered: ast.expr, order: ast.Call) -> ast.expr | None:
    """The place where the greatest of an ordered list is taken; itself, or a name that it is given."""
    is_reversed = any(keyword.arg == "reverse" and written(keyword.value) == "True" for keyword in order.keywords)
    wanted = "0" if is_reversed else "-1"
    names = {written(ordered)}
    statement = program.syntax.parents.get(order)
    if isinstance(statement, ast.Assign):
        names |= {written(target) for target in statement.targets}
    function = program.syntax.function_of(order)
    scope: ast.AST = function if function is not None else program.tree
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.Subscript)
            and written(node.slice) == wanted
            and node.lineno >= order.lineno
            and written(node.value) in names
        ):
            return node
    return None
