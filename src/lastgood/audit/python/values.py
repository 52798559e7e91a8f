"""What an expression may stand for in a program, as far as its own file tells. Pure."""

import ast
import re
from collections.abc import Callable, Iterator

from lastgood.audit.python.tree import Function, Tree, last, written

_DEPTH = 6
_MOST_PARTS = 300
_TIME = re.compile(
    r"(?:^|\.)(?:time\.(?:time|time_ns|strftime|localtime|ctime|gmtime|monotonic|perf_counter)"
    r"|datetime\.(?:now|utcnow|today)|date\.today|Timestamp\.now|arrow\.(?:now|utcnow))\Z"
)
_RANDOM = re.compile(
    r"(?:^|\.)(?:uuid\.uuid[145]|uuid[14]|os\.getpid|getpid|secrets\.token_\w+|tempfile\.(?:mkdtemp|mkstemp)|mkdtemp"
    r"|random\.(?:randint|random|choice|choices|getrandbits|sample)|coolname\.generate\w*|generate_slug)\Z"
)
_COUNTER = re.compile(
    r"(?:^|_)(?:epochs?|steps?|it|iters?|iterations?|batch(?:_idx|es)?|rounds?|episodes?|generation|gen|counter|idx|n_iter|i|t|n)\Z",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"(?!(?:num|n|max|total|log|save|eval|every)_)\w*(?:epoch|step|iter|iteration|episode|round|generation)"
    r"(?:s|_?(?:num|number|idx|i|n|count|no|id|run))?\Z",
    re.IGNORECASE,
)


class Values:
    """Follows names to what they are set to, and parameters to what this file's own calls give for them."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def of(self, node: ast.expr) -> list[ast.expr]:
        """What an expression may stand for; itself where it is no name, or nothing sets it."""
        return self.followed(node)[0]

    def followed(self, node: ast.expr) -> tuple[list[ast.expr], set[ast.AST]]:
        """The same, with all that was gone through on the way."""
        found: list[ast.expr] = []
        seen: set[ast.AST] = set()
        self._follow(node, found, seen, 0)
        return found, seen

    def within(self, node: ast.expr) -> list[ast.expr]:
        """All expressions inside of it, with names followed."""
        return self.parts_of(node)[0]

    def parts_of(
        self, node: ast.expr, is_end: Callable[[ast.expr], bool] = lambda expression: False
    ) -> tuple[list[ast.expr], list[ast.expr]]:
        """The same, and the names that were followed. What lies behind an end is not looked at."""
        found: list[ast.expr] = []
        names: list[ast.expr] = []
        seen: set[ast.AST] = set()
        pending: list[ast.expr] = [node]
        while pending and len(found) < _MOST_PARTS:
            expression = pending.pop()
            if is_end(expression):
                found.append(expression)
                continue
            values, on_the_way = self.followed(expression)
            names += [name for name in on_the_way if isinstance(name, ast.Name | ast.Attribute) and name not in seen]
            for value in values:
                if value not in seen:
                    seen.add(value)
                    found.append(value)
                    pending += _parts(value)
        return found, names

    def _follow(self, node: ast.expr, found: list[ast.expr], seen: set[ast.AST], level: int) -> None:
        if node in seen:
            return
        seen.add(node)
        values = self._one_step(node) if level < _DEPTH else []
        if not values:
            found.append(node)
        for value in values:
            self._follow(value, found, seen, level + 1)

    def _one_step(self, node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.Attribute):
            return self._tree.assigned.get((None, self._tree.name_of(node)), [])
        if not isinstance(node, ast.Name):
            return []
        values: list[ast.expr] = []
        scope: Function | None = self._tree.function_of(node)
        while scope is not None:
            values = self._tree.assigned.get((scope, node.id), [])
            if any(argument.arg == node.id for argument in _arguments(scope)):
                return values + self._arguments_for(scope, node.id)
            if values:
                return values
            scope = self._tree.function_of(scope)
        return self._tree.assigned.get((None, node.id), [])

    def _arguments_for(self, function: Function, name: str) -> list[ast.expr]:
        """What calls give for a parameter; its default where one gives none."""
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        default = _default(function, name)
        found: list[ast.expr] = []
        for call in self._tree.callers_of(function):
            is_method = isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"])
            given = [keyword.value for keyword in call.keywords if keyword.arg == name]
            if not given and name in names:
                at = names.index(name) - is_method
                given = call.args[at : at + 1] if at >= 0 else []
            found += given or ([default] if default is not None else [])
        return found or ([default] if default is not None else [])


class PathParts:
    """What a path is made of."""

    def __init__(self, tree: Tree, values: Values, path: ast.expr) -> None:
        self._tree = tree
        self.nodes, self._names = values.parts_of(path, self._is_counter)

    @property
    def times(self) -> list[ast.expr]:
        """Calls that give another value at each start: the time, a process id, a random name."""
        return [node for node in self.nodes if self._is_call(node, _TIME) or self._is_call(node, _RANDOM)]

    @property
    def counters(self) -> list[ast.expr]:
        """Names that change from one turn of a loop to the next."""
        return [node for node in dict.fromkeys([*self.nodes, *self._names]) if self._is_counter(node)]

    @property
    def literals(self) -> list[str]:
        return [node.value for node in self.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]

    @property
    def is_literal(self) -> bool:
        """Nothing in it is left open: no argument of the program, no variable that cannot be followed."""
        return all(
            isinstance(node, ast.Constant | ast.JoinedStr | ast.FormattedValue | ast.BinOp) or self._joins(node)
            for node in self.nodes
        )

    @property
    def unpadded(self) -> list[ast.expr]:
        """Counters that are written without leading zeros."""
        if any(
            isinstance(node, ast.Call) and last(self._tree.name_of(node.func)) in ("zfill", "rjust")
            for node in self.nodes
        ):
            return []
        if any(re.search(r"%0\d+d|\{[^{}]*:0>?\d+d?\}", text) for text in self.literals):
            return []
        return [node for node in self.counters if not self._is_padded(node)]

    def _is_padded(self, node: ast.expr) -> bool:
        formatted = next((above for above in self._tree.above(node) if isinstance(above, ast.FormattedValue)), None)
        return formatted is not None and formatted.format_spec is not None and "0" in written(formatted.format_spec)

    def _joins(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return last(self._tree.name_of(node.func)) in (
                "join",
                "Path",
                "open",
                "str",
                "PosixPath",
                "abspath",
                "getcwd",
            )
        return isinstance(node, ast.Attribute | ast.Name) and self._tree.name_of(node).startswith(("os.", "pathlib."))

    def _is_call(self, node: ast.expr, names: re.Pattern[str]) -> bool:
        return isinstance(node, ast.Call) and bool(names.search(self._tree.name_of(node.func)))

    def _is_counter(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Subscript):
            return isinstance(node.slice, ast.Constant) and bool(_COUNTED.match(str(node.slice.value)))
        if not isinstance(node, ast.Name | ast.Attribute):
            return False
        name = last(self._tree.name_of(node))
        return bool(_COUNTED.match(name)) or (name in self._tree.counters and bool(_COUNTER.search(name)))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(child, ast.comprehension):
            yield child.iter


def _arguments(function: Function) -> list[ast.arg]:
    own = function.args
    extra = [argument for argument in (own.vararg, own.kwarg) if argument is not None]
    return [*own.posonlyargs, *own.args, *own.kwonlyargs, *extra]


def _default(function: Function, name: str) -> ast.expr | None:
    own = function.args
    positional = [*own.posonlyargs, *own.args]
    with_default = positional[len(positional) - len(own.defaults) :]
    for argument, value in zip(with_default, own.defaults, strict=True):
        if argument.arg == name:
            return value
    for argument, default in zip(own.kwonlyargs, own.kw_defaults, strict=True):
        if argument.arg == name:
            return default
    return None
