"""LG652: a program that is told to stop ends as if it were done."""

from collections.abc import Iterator

from lastgood.audit.python.handlers import exits_with_success, is_requeueing
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity

_ASKS_TO_STOP = ("TERM", "USR1", "USR2", "HUP", "XCPU")


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_main or program.is_owned or is_requeueing(program):
        return
    saves = {save.call for save in program.saves}
    for handler in program.handlers:
        names = [name for name in handler.signals if name in _ASKS_TO_STOP]
        if handler.body is None or not names:
            continue
        bodies = [handler.body, *program.syntax.own_functions_called(handler.body)]
        # Where training is not seen, it is elsewhere if there is something to save.
        if not program.is_job and not any(call in saves for call in program.syntax.calls_in(*bodies)):
            continue
        ends = exits_with_success(program, handler.body)
        if ends is not None:
            yield Hit(
                span=program.span(ends),
                message=f"after SIG{names[0]} the program ends with 0, which says that it is done: the scheduler takes the job as "
                "finished, with work left, and starts it again in no case",
                remedy="`sys.exit(75)`, with `RequeueExit=75` where Slurm is to start it again",
            )
            return


RULE = Rule(
    code="LG652",
    name="told-to-stop-and-exits-with-0",
    severity=Severity.MAY_BE_LOST,
    what="A signal handler that ends the program with exit code 0.",
    why="A job that is preempted or at its time limit and ends with 0 is COMPLETED. Nothing requeues it, jobs "
    "that depend on it begin, and a Kubernetes Job counts it as a success. Another code says that there is "
    "work left.",
    bad="""\
import signal
import sys

from project import Net, batches, optimizer, resume, save

must_stop = False


def handler(number, frame):
    print("stopping")
    sys.exit(0)


signal.signal(signal.SIGTERM, handler)
model = resume(Net())
for step, (x, y) in enumerate(batches()):
    loss = model(x, y)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        save(model)
""",
    good="""\
import signal
import sys

from project import Net, batches, optimizer, resume, save

must_stop = False


def handler(number, frame):
    global must_stop
    must_stop = True


signal.signal(signal.SIGTERM, handler)
model = resume(Net())
for step, (x, y) in enumerate(batches()):
    loss = model(x, y)
    loss.backward()
    optimizer.step()
    if must_stop or step % 100 == 0:
        save(model)
    if must_stop:
        sys.exit(75)
""",
    safe_to_ignore="The script that starts it looks at something else than the exit code, such as a marker file.",
    source="slurm.conf(5), RequeueExit; observed with Slurm 22.05: a program that ends with 0 within its grace time "
    "is not requeued",
    reads=Program,
    check=check,
)
