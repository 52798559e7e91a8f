"""LG614: LAMMPS writes no restart files, or never reads them."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import lammps
from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.inputs import lammps_commands, lammps_input, text_of
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_FEW_STEPS = 20_000
_OTHER_FILES = ("include", "jump", "python")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or is_short(script) or script.uses_lastgood:
        return
    for command, launch in lammps(script):
        path = lammps_input(script, command, launch)
        text = text_of(script, context, path) if path is not None else None
        if path is None or text is None or launch.has_argument("-restart2data", "-r2data", "-r"):
            continue
        commands = lammps_commands(text)
        names = {words[0] for words in commands}
        if names & {*_OTHER_FILES} or not _is_long(commands):
            continue
        severity = Severity.LOST if runs_again(script, context) else None
        if not names & {"restart", "write_restart"} or ("restart" not in names and _only_at_the_end(commands)):
            yield Hit(
                span=launch.words[0].span,
                message=f"`{path}` writes no restart file while it runs: a time limit or a dead node costs the whole run",
                remedy=f"in `{path}`, in front of `run`: `restart 100000 state.*`, and `read_restart state.*` at a further start",
                severity=severity,
            )
        elif "read_restart" not in names and not _chooses(script):
            yield Hit(
                span=launch.words[0].span,
                message=f"`{path}` writes restart files and never reads one: a job that is started again begins at step 0",
                remedy="choose at the start: an input with `read_restart` if there is a restart file, and `run N upto` for the total of steps",
                severity=severity,
            )
        return


def _chooses(script: BatchScript) -> bool:
    """True if the script itself knows of restart files: it may take another input then."""
    text = script.source.data
    for doc in script.shell.heredocs:
        text = text.replace(script.source.data[doc.begin : doc.end], b"")
    return b"restart" in text


def _is_long(commands: list[list[str]]) -> bool:
    """False for inputs that only set up, minimise, or run few steps."""
    steps = [words[1] for words in commands if words[0] == "run" and len(words) > 1]
    return bool(steps) and not all(text.isdecimal() and int(text) <= _FEW_STEPS for text in steps)


def _only_at_the_end(commands: list[list[str]]) -> bool:
    """Each `write_restart` stands behind the last `run`."""
    names = [words[0] for words in commands]
    last = len(names) - 1 - names[::-1].index("run")
    return all(i > last for i, name in enumerate(names) if name == "write_restart")


RULE = Rule(
    code="LG614",
    name="lammps-without-restart",
    severity=Severity.MAY_BE_LOST,
    what="A LAMMPS input (beside the script, or written by it) with many steps and no `restart` command, or with one and no `read_restart`.",
    why="LAMMPS saves only what its input says, and handles no signal: whatever ends it, everything since the last restart file is gone. "
    "`write_restart` behind the last `run` comes too late.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > in.melt <<'END'
units lj
read_data melt.data
fix 1 all nvt temp 1.0 1.0 0.1
run 50000000
write_restart final.restart
END
srun --kill-on-bad-exit=1 lmp -in in.melt
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if ls state.* > /dev/null 2>&1; then READ="read_restart state.*"; else READ="read_data melt.data"; fi
cat > in.melt <<END
units lj
$READ
fix 1 all nvt temp 1.0 1.0 0.1
restart 100000 state.*
run 50000000 upto
END
srun --kill-on-bad-exit=1 lmp -in in.melt
""",
    safe_to_ignore="The run takes less time than looking after restart files.",
    source="LAMMPS manual, restart and read_restart; tried with LAMMPS 29 Sep 2021",
    reads=BatchScript,
    check=check,
)
