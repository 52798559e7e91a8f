"""What the source of a Python program says of its state: which objects have some, and which of them it saves. Pure.

Only a hint: it looks at names, as a reader would, and not at what runs.
"""

import ast
from collections.abc import Iterator

import msgspec

STATEFUL = {
    "optimizer": (
        *("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "LBFGS", "Adafactor"),
        *("Lion", "Lamb"),
    ),
    "schedule": (
        *("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR"),
        *("LambdaLR", "LinearLR", "CyclicLR", "ReduceLROnPlateau", "SequentialLR", "PolynomialLR", "ConstantLR"),
        *("get_scheduler", "get_cosine_schedule_with_warmup", "get_linear_schedule_with_warmup"),
    ),
    "random generator": ("default_rng", "RandomState", "Random", "Generator", "SeedSequence"),
    "scaler": ("GradScaler",),
    "moving average": ("AveragedModel", "EMA", "ExponentialMovingAverage"),
}
"""By kind, the last part of the names of what makes an object with state."""
_SAVES = (
    "save",
    "savez",
    "savez_compressed",
    "dump",
    "dumps",
    "save_file",
    "Run",
    "save_checkpoint",
    "save_state",
    "save_pretrained",
)
_RANDOM_CALLS = frozenset(
    "rand randn randint randperm random normal uniform choice shuffle permutation gauss Dropout dropout bernoulli multinomial "
    "standard_normal sample".split()
)
_ORDER_CALLS = frozenset("randperm permutation shuffle RandomSampler DistributedSampler".split())


class Stateful(msgspec.Struct, frozen=True):
    name: str
    kind: str
    made_by: str
    line: int

    def __str__(self) -> str:
        return f"`{self.name}` ({self.made_by}, line {self.line})"


class Program(msgspec.Struct, frozen=True):
    name: str
    unsaved: tuple[Stateful, ...] = ()
    """Objects with state that no call which saves is given."""
    uses_optimizer: bool = False
    draws: tuple[str, ...] = ()
    """Calls that draw random numbers, as they are written."""
    shuffles: tuple[str, ...] = ()
    """What puts data into a random order, as it is written, with its line."""
    unseeded: tuple[str, ...] = ()
    """Generators that are made without a seed, or from the clock, with their lines."""


def read_program(source: str, name: str) -> Program | None:
    """None for what is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    saved = _saved_names(tree, calls)
    stateful = list(_stateful(tree))
    return Program(
        name=name,
        unsaved=tuple(one for one in stateful if one.name not in saved),
        uses_optimizer=any(one.kind == "optimizer" for one in stateful) or _mentions(tree, ("momentum", "velocity")),
        draws=tuple(dict.fromkeys(_dotted(call.func) for call in calls if _last(call.func) in _RANDOM_CALLS)),
        shuffles=tuple(dict.fromkeys(_shuffles(calls))),
        unseeded=tuple(dict.fromkeys(_unseeded(calls))),
    )


def _stateful(tree: ast.AST) -> Iterator[Stateful]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        made_by = _last(node.value.func)
        kind = next((kind for kind, names in STATEFUL.items() if made_by in names), "")
        for target in node.targets:
            name = _dotted(target)
            if kind and name:
                yield Stateful(name, kind, _dotted(node.value.func), node.lineno)


def _saved_names(tree: ast.AST, calls: list[ast.Call]) -> set[str]:
    """Names in the arguments of calls that save, and in what these were made from."""
    saved = {name for call in calls if _last(call.func) in _SAVES for name in _names(call)}
    makers = {
        target: set(_names(node.value))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in (_dotted(one).partition("[")[0] for one in node.targets)
        if target
    }
    for _ in range(3):
        saved |= {name for target in saved & makers.keys() for name in makers[target]}
    return saved


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield _dotted(part)


def _shuffles(calls: list[ast.Call]) -> Iterator[str]:
    for call in calls:
        is_asked = any(
            word.arg == "shuffle" and isinstance(word.value, ast.Constant) and word.value.value is True
            for word in call.keywords
        )
        if is_asked:
            yield f"{_dotted(call.func)}(shuffle=True), line {call.lineno}"
        elif _last(call.func) in _ORDER_CALLS:
            yield f"{_dotted(call.func)}(), line {call.lineno}"


_GENERATORS = ("default_rng", "RandomState", "Random", "SeedSequence", "SystemRandom")
_CLOCKS = ("time", "time_ns", "now", "getpid", "urandom", "entropy", "token_bytes")


def _unseeded(calls: list[ast.Call]) -> Iterator[str]:
    for call in calls:
        name = _last(call.func)
        is_seeding = name in ("seed", "manual_seed", "manual_seed_all", *_GENERATORS)
        is_by_clock = any(
            isinstance(part, ast.Call) and _last(part.func) in _CLOCKS for word in call.args for part in ast.walk(word)
        )
        if (name in _GENERATORS and not call.args and not call.keywords) or (is_seeding and is_by_clock):
            yield f"{_dotted(call.func)}({'...' if call.args else ''}), line {call.lineno}"


def _mentions(tree: ast.AST, words: tuple[str, ...]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in words for node in ast.walk(tree))


def _last(node: ast.expr) -> str:
    return _dotted(node).rpartition(".")[2]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}".lstrip(".")
    return _dotted(node.value) + "[" if isinstance(node, ast.Subscript) else ""
