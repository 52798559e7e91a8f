"""A Python program's syntax tree with the questions that `ast` leaves open: what is above a node, and what a name means. Pure."""

import ast
import warnings
from collections.abc import Iterator

from lastgood.audit.source import Source, Span

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While

_OF_MODULES = frozenset(
    {"train", "eval", "to", "forward", "step", "zero_grad", "parameters", "state_dict", "load_state_dict"}
)


class Tree:
    """One walk over a program. Raises SyntaxError for what is no Python.

    Names are known in the way in which the file itself tells them: by its imports, its assignments, and the calls of
    its own functions. A method is known by its name alone.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.module = _parse(source.data)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.aliases: dict[str, str] = {}
        self.modules: set[str] = set()
        """Modules that are imported, "." before those of the own package."""
        self.calls: list[ast.Call] = []
        self.loops: list[Loop] = []
        self.dicts: list[ast.Dict] = []
        self.tries: list[ast.Try] = []
        self.classes: dict[str, list[ast.expr]] = {}
        """Classes of this file, with their bases."""
        self.functions: dict[str, list[Function]] = {}
        self.assigned: dict[tuple[ast.AST | None, str], list[ast.expr]] = {}
        """What a name in a function (None: the module) or a dotted name anywhere is set to."""
        self.items_set: dict[str, list[tuple[str, ast.expr]]] = {}
        """Keys and values that are put into a dictionary by its name, after it was made."""
        self.counters: set[str] = set()
        """Names that loops set or that are added to."""
        self.called: dict[str, list[ast.Call]] = {}
        """Calls by the last part of the name of what is called."""
        self._callers: dict[Function, list[ast.Call]] = {}
        self._walk()

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the innermost first."""
        found = self.parents.get(node)
        while found is not None:
            yield found
            found = self.parents.get(found)

    def function_of(self, node: ast.AST) -> Function | None:
        return next((found for found in self.above(node) if isinstance(found, Function)), None)

    def name_of(self, node: ast.AST | None) -> str:
        """A dotted name with its import put in: "numpy.save" for `np.save`; "" for what has no name.

        The result of a call is written as "f()".
        """
        match node:
            case ast.Name(id=name):
                return self.aliases.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.name_of(value) or '?'}.{attr}"
            case ast.Call(func=func):
                return f"{self.name_of(func) or '?'}()"
            case ast.Subscript(value=value):
                return f"{self.name_of(value) or '?'}[]"
        return ""

    def span(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> Span:
        """Where a node is; of one over several lines, the first."""
        source = self.source
        line = min(node.lineno, source.line_count)
        begin, line_end = source.bounds_of_line(line)
        end = begin + node.end_col_offset if node.end_lineno == node.lineno and node.end_col_offset else line_end
        at = min(begin + node.col_offset, line_end)
        return source.span(at, max(at, min(end, line_end)))

    def text(self, node: ast.expr, most: int = 40) -> str:
        """A node as one writes it, for messages."""
        whole = written(node) or "..."
        return whole if len(whole) <= most else whole[: most - 3] + "..."

    def calls_in(self, *nodes: ast.AST) -> Iterator[ast.Call]:
        for node in nodes:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call):
                    yield inner

    def callers_of(self, function: Function) -> list[ast.Call]:
        """Calls in this file that may be of this function."""
        if function not in self._callers:
            calls = self.called.get(function.name, ())
            self._callers[function] = [call for call in calls if self.may_call(call, function)]
        return self._callers[function]

    def may_call(self, call: ast.Call, function: Function) -> bool:
        """Whether a call of something of that name can be meant for it.

        A method is called on an object: on `self` in its own class, or on what its class made; of other objects nobody
        knows the class, and names that PyTorch's modules have, too, are then taken for theirs.
        """
        owner = next((above for above in self.above(function) if isinstance(above, ast.ClassDef | Function)), None)
        if not isinstance(owner, ast.ClassDef):
            return isinstance(call.func, ast.Name)
        if not isinstance(call.func, ast.Attribute):
            return False
        receiver = call.func.value
        if isinstance(receiver, ast.Name) and receiver.id in ("self", "cls"):
            own = next((above for above in self.above(call) if isinstance(above, ast.ClassDef)), None)
            return own is None or own is owner or own.name not in self._has_method(function.name)
        if self.name_of(receiver).partition(".")[0] in {module.partition(".")[0] for module in self.modules}:
            # A function of a module that is imported.
            return False
        made = [value for value in self.assigned_to(receiver) if isinstance(value, ast.Call)]
        names = {last(self.name_of(value.func)) for value in made}
        if names & self.classes.keys():
            return owner.name in names or not names & self._has_method(function.name)
        return function.name not in _OF_MODULES

    def assigned_to(self, node: ast.expr) -> list[ast.expr]:
        """What a name is set to, in its function or the module; a call is itself."""
        if isinstance(node, ast.Name):
            return self.assigned.get((self.function_of(node), node.id)) or self.assigned.get((None, node.id), [])
        if isinstance(node, ast.Attribute):
            return self.assigned.get((None, self.name_of(node)), [])
        return [node]

    def _has_method(self, name: str) -> set[str]:
        """Classes of this file that have a method of that name."""
        owners = (self.parents.get(function) for function in self.functions.get(name, ()))
        return {owner.name for owner in owners if isinstance(owner, ast.ClassDef)}

    def own_functions_called(self, *nodes: ast.AST) -> list[Function]:
        """Functions of this file that are called there, or by one of those."""
        found: dict[Function, None] = {}
        pending = list(nodes)
        while pending:
            for call in self.calls_in(pending.pop()):
                for function in self.functions.get(last(self.name_of(call.func)), ()):
                    if function not in found and self.may_call(call, function):
                        found[function] = None
                        pending.append(function)
        return list(found)

    def _walk(self) -> None:
        nodes: list[ast.AST] = [self.module]
        for node in nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                nodes.append(child)
        for node in nodes:
            self._look_at(node)
        self.calls.sort(key=lambda call: (call.lineno, call.col_offset))
        for (scope, name), values in list(self.assigned.items()):
            values.sort(key=lambda value: (value.lineno, value.col_offset))
            self.assigned[scope, name] = values
        for call in self.calls:
            self.called.setdefault(last(self.name_of(call.func)), []).append(call)

    def _look_at(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self.modules.add(alias.name)
                    if alias.asname:
                        self.aliases[alias.asname] = alias.name
            case ast.ImportFrom(module=module, names=names, level=level):
                whole = "." * level + (module or "")
                self.modules.add(whole)
                for alias in names:
                    self.aliases[alias.asname or alias.name] = f"{whole}.{alias.name}"
            case ast.Call():
                self.calls.append(node)
            case ast.For(target=target) | ast.AsyncFor(target=target):
                self.loops.append(node)
                self.counters |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
            case ast.Dict():
                self.dicts.append(node)
            case ast.Try():
                self.tries.append(node)
            case ast.While():
                self.loops.append(node)
            case ast.ClassDef(name=name, bases=bases):
                self.classes[name] = bases
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.setdefault(node.name, []).append(node)
            case ast.AugAssign(target=target):
                self.counters.add(last(self.name_of(target)))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.withitem(context_expr=value, optional_vars=ast.Name() as target):
                self._assign(target, value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for inner, own in zip(target.elts, value.elts, strict=True):
                    self._assign(inner, own)
            else:
                for inner in target.elts:
                    self._assign(inner, value)
            return
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name | ast.Attribute):
            self.items_set.setdefault(self.name_of(target.value), []).append((written(target.slice), value))
        elif isinstance(target, ast.Name):
            self.assigned.setdefault((self.function_of(target), target.id), []).append(value)
        elif isinstance(target, ast.Attribute):
            self.assigned.setdefault((None, self.name_of(target)), []).append(value)


def written(node: ast.AST) -> str:
    """A node as one writes it; empty for what is nested too deeply."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return ""


def last(name: str) -> str:
    """The part behind the last dot."""
    return name.rpartition(".")[2]


def _parse(data: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Escapes that a later Python refuses are nothing to tell the user of an audit.
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from error
