"""Which signals a Python program handles, as far as its own text tells. Pure.

A handler can hide in what it imports: the answer is "no" only for programs that import nothing but the standard
library and libraries that are known to install none.
"""

import ast
import re
import sys

from lastgood.audit.python.program import Program

_WITHOUT_HANDLERS = frozenset(
    """
    numpy scipy pandas matplotlib torch torchvision torchaudio sklearn tqdm yaml h5py PIL cv2 tensorboard seaborn sympy
    networkx psutil mpi4py jax flax optax joblib numba einops tokenizers
    """.split()
)
_CALLS = ("signal", "sigaction", "add_signal_handler", "sigwait", "sigtimedwait", "set_wakeup_fd", "siginterrupt")
_NAME = re.compile(r"SIG([A-Z]+\d?)\Z")


def handles(program: Program | None, signal: str) -> bool | None:
    """Whether the program does something of its own at a signal; None if its text does not tell."""
    if program is None:
        return None
    names = _named(program.tree)
    if signal in names:
        return True
    return None if _may_hide_one(program.tree, bool(names)) else False


def handled(program: Program | None) -> frozenset[str]:
    """The signals that it surely handles."""
    return frozenset() if program is None else _named(program.tree)


def _named(tree: ast.Module) -> frozenset[str]:
    """Signals that the text names, where it installs handlers at all."""
    if not any(_is_installing(node) for node in ast.walk(tree)):
        return frozenset()
    names = (
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name))
    )
    return frozenset(match[1] for name in names if (match := _NAME.match(name)))


def _is_installing(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    if name not in _CALLS or not node.args:
        return False
    given = node.args[-1]
    # signal.signal(SIGINT, signal.SIG_IGN) and SIG_DFL do nothing of their own.
    return not (isinstance(given, ast.Attribute) and given.attr in ("SIG_IGN", "SIG_DFL"))


def _may_hide_one(tree: ast.Module, is_understood: bool) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            return True
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            if top not in _WITHOUT_HANDLERS and top not in sys.stdlib_module_names:
                return True
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if _NAME.match(name) and not is_understood:
            # It names signals, but where it handles them is not seen.
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.match(node.value):
            return True
    return False
