"""In which order to import ahead what a program has imported.

`sys.modules` tells in which order imports ended. That they begin in the program's own order matters to native
libraries, of which the first one that is loaded can decide for the others. So the program's own files are read for
their imports, from the script down; whatever is found nowhere there follows in the order of its end.
"""

import ast
from collections.abc import Callable, Iterator, Mapping

from lastgood.core.imports import Imported


def import_order(imported: Imported, is_own: Callable[[str], bool], read: Callable[[str], bytes]) -> list[str]:
    """Names of the modules that are not the program's own. `is_own` tells of a file whether it is.

    `read` returns the source in a file, or raises OSError.
    """
    files = dict(imported.modules)
    own = {name: file for name, file in files.items() if file and is_own(file)}
    installed = [name for name in files if name not in own and name != imported.main_module]
    walk = _Walk(own, set(installed), read)
    walk.visit(imported.main_module, imported.main_file)
    return [*walk.order, *(name for name in installed if name not in walk.seen)]


class _Walk:
    def __init__(self, own: Mapping[str, str], installed: set[str], read: Callable[[str], bytes]) -> None:
        self._own = own
        self._installed = installed
        self._read = read
        self._visited: set[str] = set()
        self.order: list[str] = []
        self.seen: set[str] = set()

    def visit(self, module: str, file: str) -> None:
        """Follow what a file of the program's own imports when it is run."""
        if file in self._visited or not file.endswith(".py"):
            return
        self._visited.add(file)
        try:
            tree = ast.parse(self._read(file))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            # Written for another Python, say. Its imports come in the order of their ends.
            return
        package = module if file.endswith("/__init__.py") else module.rpartition(".")[0]
        for statement in _at_import(tree.body):
            for name in _names(statement, package):
                self._take(name)

    def _take(self, name: str) -> None:
        """Import `name`, its packages first, as far as the program did."""
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            if part in self._own:
                self.visit(part, self._own[part])
            elif part in self._installed and part not in self.seen:
                self.seen.add(part)
                self.order.append(part)


def _at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements outside of functions, in order; both ways of a condition, as the program took either."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "handlers", "orelse", "finalbody", "cases"):
                inner = getattr(statement, field, [])
                for part in inner if isinstance(inner, list) else []:
                    yield from _at_import([part] if isinstance(part, ast.stmt) else part.body)


def _names(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    module = ".".join([*base, *([statement.module] if statement.module else [])])
    yield module
    yield from (f"{module}.{alias.name}" for alias in statement.names)
