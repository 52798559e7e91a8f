"""LG502: a trap that sends mpirun TERM."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import kills_in
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for trap in script.traps:
        if all(name in ("EXIT", "ERR", "INT") for name in trap.signals):
            continue
        kills = list(kills_in(script, trap.body))
        if any(kill.signal in ("USR1", "USR2") for kill in kills):
            continue
        for kill in kills:
            names = [
                t.wrappers[0].words[0].text.rpartition("/")[2] for t in kill.targets if t.wrapper("mpirun") is not None
            ]
            if names and kill.signal in ("TERM", "HUP", "INT"):
                yield Hit(
                    span=kill.command.span,
                    message=f"at {kill.signal} {names[0]} may end its ranks with KILL about a second later (Open MPI does): a save "
                    "that takes longer is cut off",
                    remedy="send USR1 or USR2, which it passes on, or stop the program by a file or its own time limit",
                )
                return


RULE = Rule(
    code="LG502",
    name="term-kills-mpi-ranks",
    severity=Severity.MAY_BE_LOST,
    what="A trap that sends TERM, HUP or INT to mpirun (`kill $PID` sends TERM).",
    why="mpirun takes TERM for an order to end the job. Open MPI passes it on, and kills the ranks about a second later, so that "
    "only saves of less than a second survive.",
    bad="""\
#!/bin/bash
#SBATCH --ntasks=16
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
mpirun ./solver --restart latest &
child=$!
trap 'kill -TERM "$child"; wait "$child"' USR1
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --ntasks=16
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
mpirun ./solver --restart latest &
child=$!
trap 'kill -USR1 "$child"; wait "$child"' USR1
wait "$child"
""",
    safe_to_ignore="Another MPI, of which it is known that it waits for its ranks.",
    source="mpirun(1) of Open MPI, Signal Propagation; seen with Open MPI 4.1.4: at TERM, HUP or INT to mpirun its ranks got "
    "TERM, and a save of 3 s was cut off; USR1 came to the ranks as it is, and they saved",
    reads=BatchScript,
    check=check,
)
