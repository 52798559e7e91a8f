"""Which signals a program handles, and what its handlers do. Pure."""

import ast
from collections.abc import Iterator

import msgspec

from lastgood.audit.python.tree import Function, Tree, last
from lastgood.audit.python.values import Values

_KNOWN = frozenset("HUP INT QUIT USR1 USR2 TERM CONT ALRM URG XCPU ABRT TSTP CHLD PIPE WINCH".split())
_NO_HANDLER = ("SIG_DFL", "SIG_IGN")


class Handler(msgspec.Struct, frozen=True):
    call: ast.Call
    """The call that installs it."""
    signals: tuple[str, ...]
    """Without SIG: "TERM"; empty if the file does not tell which."""
    body: Function | ast.Lambda | None
    """None if it is no function of this file."""
    is_at_once: bool
    """Python runs it between any two of the loop's instructions; not so a handler of asyncio's loop."""


def handlers_in(tree: Tree, values: Values) -> list[Handler]:
    """Handlers that are installed anywhere in the program; defaults that are put back are none."""
    return list(_handlers(tree, values))


def short(name: str) -> str:
    """
    >>> short("SIGUSR1"), short("usr1"), short("signal.Signals.SIGTERM")
    ('USR1', 'USR1', 'TERM')
    """
    return last(name).upper().removeprefix("SIG")


def _handlers(tree: Tree, values: Values) -> Iterator[Handler]:
    for call in tree.calls:
        name = tree.name_of(call.func)
        is_at_once = name in ("signal.signal", "signal.sigaction")
        if not is_at_once and not name.endswith(".add_signal_handler"):
            continue
        if len(call.args) < 2:
            continue
        handler = call.args[1]
        found = values.of(handler)
        if all(last(tree.name_of(one)) in _NO_HANDLER for one in found):
            continue
        yield Handler(call, tuple(_signals(tree, values, call.args[0])), _body(tree, handler, found), is_at_once)


def _body(tree: Tree, handler: ast.expr, found: list[ast.expr]) -> Function | ast.Lambda | None:
    for one in (handler, *found):
        if isinstance(one, ast.Lambda):
            return one
        functions = tree.functions.get(last(tree.name_of(one)), [])
        if len(functions) == 1:
            return functions[0]
    return None


def _signals(tree: Tree, values: Values, node: ast.expr) -> Iterator[str]:
    names = [short(tree.name_of(one)) for one in values.of(node)]
    if not any(name in _KNOWN for name in names) and isinstance(node, ast.Name):
        # for name in (signal.SIGTERM, signal.SIGUSR1): signal.signal(name, handler)
        for loop in tree.above(node):
            if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == node.id:
                for one in values.within(loop.iter):
                    names.append(short(tree.name_of(one)))
                    if isinstance(one, ast.Constant) and isinstance(one.value, str):
                        names.append(short(one.value))
    yield from dict.fromkeys(name for name in names if name in _KNOWN)
