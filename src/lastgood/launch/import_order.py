"""In which order to import ahead what a program has imported.

`sys.modules` tells in which order imports ended. That they begin in the program's own order matters to native
libraries, of which the first one that is loaded can decide for the others. So the program's own files are read for
their imports, from the script down; whatever is found nowhere there follows in the order of its end.

What the program imports before it does anything else finds the process as it was started. Later imports may find
what the program has done until then: a variable that it has set, a seed.
"""

import ast
from collections.abc import Callable, Iterator, Mapping

import msgspec

from lastgood.core.imports import Imported

_DO_NOTHING = ("getLogger", "TypeVar")
"""Calls that are usual between imports, and of which no import can see anything."""


class ImportOrder(msgspec.Struct, frozen=True):
    first: list[str]
    """Modules that are imported before the program does anything else."""
    later: list[str]


def import_order(imported: Imported, is_own: Callable[[str], bool], read: Callable[[str], bytes]) -> ImportOrder:
    """Names of the modules that are not the program's own. `is_own` tells of a file whether it is.

    `read` returns the source in a file, or raises OSError.
    """
    files = dict(imported.modules)
    own = {name: file for name, file in files.items() if file and is_own(file)}
    installed = [name for name in files if name not in own and name != imported.main_module]
    walk = _Walk(own, set(installed), read)
    walk.visit(imported.main_module, imported.main_file)
    later = [*walk.later, *(name for name in installed if name not in walk.seen)]
    return ImportOrder(walk.first, later)


class _Walk:
    def __init__(self, own: Mapping[str, str], installed: set[str], read: Callable[[str], bytes]) -> None:
        self._own = own
        self._installed = installed
        self._read = read
        self._visited: set[str] = set()
        self._has_acted = False
        """The program has done something else than to import and to define."""
        self.first: list[str] = []
        self.later: list[str] = []
        self.seen: set[str] = set()

    def visit(self, module: str, file: str) -> None:
        """Follow what a file of the program's own imports when it is run."""
        if file in self._visited:
            return
        self._visited.add(file)
        try:
            tree = ast.parse(self._read(file))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            # No source, or written for another Python. Its imports come in the order of their ends.
            self._has_acted = True
            return
        package = module if file.endswith("/__init__.py") else module.rpartition(".")[0]
        for statement in tree.body:
            self._follow(statement, package)

    def _follow(self, statement: ast.stmt, package: str) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for name in _names(statement, package):
                self._take(name)
        elif inner := list(_inside(statement)):
            is_choice = isinstance(statement, ast.If) and _is_harmless(statement.test)
            if not is_choice and not isinstance(statement, ast.Try):
                self._has_acted = True
            for part in inner:
                self._follow(part, package)
        elif not _only_defines(statement):
            self._has_acted = True

    def _take(self, name: str) -> None:
        """Import `name`, its packages first, as far as the program did."""
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            if part in self._own:
                self.visit(part, self._own[part])
            elif part in self._installed and part not in self.seen:
                self.seen.add(part)
                (self.later if self._has_acted else self.first).append(part)


def _inside(statement: ast.stmt) -> Iterator[ast.stmt]:
    """What a compound statement may run, all ways of it, as the program took one of them; nothing of functions."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(statement, field, [])
        for part in inner if isinstance(inner, list) else []:
            yield from [part] if isinstance(part, ast.stmt) else part.body


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Pass):
        return True
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) for target in statement.targets) and _is_harmless(statement.value)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and _is_harmless(statement.value)
    # A docstring.
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_harmless(value: ast.expr | None) -> bool:
    """An expression that changes nothing."""
    calls = (node for node in ast.walk(value) if isinstance(node, ast.Call)) if value is not None else ()
    return all(_last_name(call.func) in _DO_NOTHING for call in calls)


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _names(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    module = ".".join([*base, *([statement.module] if statement.module else [])])
    yield module
    yield from (f"{module}.{alias.name}" for alias in statement.names)
