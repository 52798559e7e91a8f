"""What a program does when a checkpoint cannot be loaded. Pure."""

import ast
import re

from lastgood.audit.python.checkpoints import Load
from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import last, written

_ENDS = re.compile(r"(?:^|\.)(?:exit|_exit|abort|quit|fail|Abort)\Z")
_BROAD = ("Exception", "BaseException")
_NO_STATE = re.compile(r"pre[-_]?train|\bbase[_ ]|imagenet|backbone|\.hub|tokenizer|ema\b|vgg|resnet", re.IGNORECASE)


def loads_within(program: Program, block: ast.Try) -> Load | None:
    """The load of a checkpoint that a `try` is there for."""
    within = set(program.syntax.calls_in(*block.body))
    found = [load for load in program.loads if load.call in within and _is_of_a_checkpoint(program, load)]
    if not found or _NO_STATE.search(written(block)):
        return None
    # A long block is tried for other reasons.
    is_short = len(block.body) <= 12
    return found[0] if is_short and not any(call in within for call in program.flow.steps) else None


def _is_of_a_checkpoint(program: Program, load: Load) -> bool:
    return not load.how.startswith("numpy.") or program.checkpoints.is_own(load)


def gives_up_silently(program: Program, block: ast.Try) -> ast.ExceptHandler | None:
    """The handler that goes on without the checkpoint, whatever the error was."""
    for handler in block.handlers:
        if handler.type is not None and not _is_broad(handler.type):
            continue
        return None if _does_something_about_it(program, handler) else handler
    return None


def _is_broad(kind: ast.expr) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(last(written(one)) in _BROAD for one in kinds)


def _does_something_about_it(program: Program, handler: ast.ExceptHandler) -> bool:
    loads = {load.call for load in program.loads}
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise | ast.Continue | ast.Assert):
                return True
            if isinstance(node, ast.Call):
                name = program.syntax.name_of(node.func)
                if node in loads or _ENDS.search(name) or "load" in last(name).lower():
                    return True
    return False
