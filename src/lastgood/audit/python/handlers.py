"""What a program does when a signal tells it to stop. Pure."""

import ast

from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import Function, last, written

_EXITS = ("sys.exit", "exit", "quit", "os._exit")


def exits_with_success(program: Program, body: Function | ast.Lambda) -> ast.Call | None:
    """The call with which a handler ends the program, if that says that all went well."""
    for call in program.syntax.calls_in(body):
        if program.syntax.name_of(call.func) in _EXITS and _is_success(call):
            return call
    return None


def is_requeueing(program: Program) -> bool:
    """It asks the scheduler itself to run the job again."""
    return b"requeue" in program.source.data or b"sbatch" in program.source.data


def _is_success(call: ast.Call) -> bool:
    if not call.args:
        return last(written(call.func)) != "_exit"
    code = call.args[0]
    return isinstance(code, ast.Constant) and code.value in (0, None)
