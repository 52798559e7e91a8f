"""LG651: a signal handler saves."""

from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity

_ASKS_TO_STOP = ("TERM", "USR1", "USR2", "INT", "HUP", "XCPU")


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_main or program.uses("lastgood"):
        return
    tree = program.syntax
    saves = {save.call: save for save in program.saves}
    told = set()
    for handler in program.handlers:
        names = [name for name in handler.signals if name in _ASKS_TO_STOP]
        if handler.body is None or not handler.is_at_once or not names:
            continue
        bodies = [handler.body, *tree.own_functions_called(handler.body)]
        within = [call for call in tree.calls_in(*bodies) if call in saves]
        if not within or within[0] in told:
            continue
        told.add(within[0])
        yield Hit(
            span=program.span(within[0]),
            message=f"the handler of {', '.join('SIG' + name for name in names)} saves here, between any two operations of the "
            "loop: the state may be half of one step and half of the next, and a second signal, or a lock that the loop holds, "
            "ends or hangs it",
            remedy="only set a flag in the handler; look at it in the loop after each step, then save and exit",
            severity=Severity.NOTE if names == ["INT"] else None,
        )


RULE = Rule(
    code="LG651",
    name="save-in-signal-handler",
    severity=Severity.MAY_BE_LOST,
    what="A function that is installed with `signal.signal` and saves, itself or in what it calls.",
    why="Python runs a handler between two of the interrupted code's instructions: after the weights of one layer "
    "were updated and before those of the next, or in the middle of another save. Locks that the interrupted "
    "code holds (of the logger, of a data loader's queue, of NCCL) are never given back. A collective in the "
    "handler waits for ranks that got their signal at another step.",
    bad="""\
import os
import signal
import sys

import torch

from project import Net, batches

model = Net()
optimizer = torch.optim.Adam(model.parameters())


def save(path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)


def handler(number, frame):
    save("last.pt")
    sys.exit(75)


signal.signal(signal.SIGTERM, handler)
if os.path.exists("last.pt"):
    last = torch.load("last.pt", weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
""",
    good="""\
import os
import signal
import sys

import torch

from project import Net, batches

model = Net()
optimizer = torch.optim.Adam(model.parameters())
must_stop = False


def save(path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)


def handler(number, frame):
    global must_stop
    must_stop = True


signal.signal(signal.SIGTERM, handler)
if os.path.exists("last.pt"):
    last = torch.load("last.pt", weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
    if must_stop:
        save("last.pt")
        sys.exit(75)
""",
    safe_to_ignore="The program is at that time always at the same place, such as in `signal.pause()`.",
    source='Python, signal: "Execution of Python signal handlers"; reports of deadlocks in launchers that save in '
    "the handler",
    reads=Program,
    check=check,
)
