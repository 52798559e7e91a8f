"""Which signals a script asks for, whom its traps tell, and which signals its Python program handles."""

import msgspec
import pytest

from lastgood.audit.batch.handlers import handled, handles
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import (
    early_signal,
    foreground_work,
    is_in_background,
    is_shell_script,
    kills_in,
    name_of,
    own_traps,
    reached,
    reads_other_scripts,
)
from lastgood.audit.engine import audit
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source

HEADER = "#!/bin/bash\n#SBATCH --time=12:00:00\n#SBATCH --requeue\n#SBATCH --open-mode=append\n"


def script(text: str, *options: str) -> BatchScript:
    header = HEADER + "".join(f"#SBATCH {option}\n" for option in options)
    return BatchScript(Source("job.sh", (header + text).encode()))


def program(text: str) -> Program:
    return Program(Source("train.py", text.encode()))


def codes(text: str, *options: str, beside: str = "") -> set[str]:
    """Codes of the findings in a script, with a program at train.py."""

    def find(near: str, path: str) -> Program | None:
        return program(beside) if beside and path.endswith("train.py") else None

    context = msgspec.structs.replace(Context(), find_program=find)
    found = audit(script(text, *options).source, all_rules(), context).findings
    return {finding.rule.code for finding in found if finding.rule.family in ("signals", "ranks")}


@pytest.mark.parametrize(
    ("value", "name", "lead_s", "is_for_shell"),
    [
        ("USR1", "USR1", 60, False),
        ("SIGUSR1@90", "USR1", 90, False),
        ("B:USR1@300", "USR1", 300, True),
        ("R:TERM@30", "TERM", 30, False),
        ("BR:TERM@30", "TERM", 30, True),
        ("10@600", "USR1", 600, False),
        ("B:sigterm@5", "TERM", 5, True),
    ],
)
def test_the_early_signal_is_read(value: str, name: str, lead_s: float, is_for_shell: bool) -> None:
    asked = early_signal(script("", f"--signal={value}"))
    assert asked is not None
    assert (asked.name, asked.lead_s, asked.is_for_shell) == (name, lead_s, is_for_shell)


@pytest.mark.parametrize("value", ["", "{{ signal }}", "$SIGNAL@60", "USR1@soon", "[B:]num[@time]"])
def test_what_is_no_signal_is_none(value: str) -> None:
    assert early_signal(script("", f"--signal={value}")) is None
    assert early_signal(script("")) is None


@pytest.mark.parametrize(
    ("line", "signal", "program"),
    [
        ("kill $pid", "TERM", "a"),
        ("kill -USR1 $pid", "USR1", "a"),
        ('kill -SIGUSR1 "$pid"', "USR1", "a"),
        ("kill -s USR1 $pid", "USR1", "a"),
        ("kill -n 10 $pid", "USR1", "a"),
        ("kill -10 ${pid}", "USR1", "a"),
        ("kill -9 -- $pid", "KILL", "a"),
        ("kill -TERM %1", "TERM", "a"),
        ("kill -TERM %2", "TERM", "b"),
        ("kill -TERM $!", "TERM", "b"),
        ("kill $(jobs -p)", "TERM", "a"),
    ],
)
def test_a_kill_says_what_it_sends_to_whom(line: str, signal: str, program: str) -> None:
    text = script(f"srun a &\npid=$!\nb &\n{line}\nwait\n")
    kill = next(iter(kills_in(text, text.commands)))
    assert kill.signal == signal and kill.targets[0].program == program


@pytest.mark.parametrize("line", ["kill -0 $pid", "kill -l"])
def test_asking_is_not_killing(line: str) -> None:
    text = script(f"a &\npid=$!\n{line}\n")
    assert not list(kills_in(text, text.commands))


def test_the_number_of_a_pipe_is_that_of_its_last_command() -> None:
    text = script("a | tee log &\npid=$!\nkill -USR1 $pid\n")
    kill = next(iter(kills_in(text, text.commands)))
    assert kill.is_of_pipe and kill.targets[0].words[0].text == "tee"


@pytest.mark.parametrize(
    ("text", "is_background"),
    [
        ("x &", True),
        ("f() { x; }\nf &", True),
        ("f() { x; }\ng() { f; }\ng &", True),
        ("bash -c 'x' &", True),
        ("f() { f; x; }\nf", False),
        ("f() { x; }\nf", False),
        ("x", False),
    ],
)
def test_the_background_reaches_into_functions(text: str, is_background: bool) -> None:
    found = script(text)
    command = next(c for c in found.commands if c.name == "x")
    assert is_in_background(found, command) is is_background


def test_nothing_is_waited_for_where_the_script_waits_itself() -> None:
    assert [launch.program for _, launch in foreground_work(script("a\nb -maxh 2\n"))] == ["a"]
    assert not foreground_work(script("a &\nb\nwait\n"))
    assert [launch.program for _, launch in foreground_work(script("a &\nb\n"))] == ["b"]
    assert [launch.program for _, launch in foreground_work(script("b\nwait\n"))] == ["b"]
    assert not foreground_work(script("b\na &\nwhile kill -0 $!; do sleep 9; done\n"))


@pytest.mark.parametrize(
    ("first", "is_shell"),
    [
        ("#!/bin/bash", True),
        ("#!/usr/bin/env bash", True),
        ("#!/bin/sh -e", True),
        ("#!/usr/bin/env python3", False),
        ("#!/usr/bin/perl", False),
        ("#SBATCH -n 1", True),
    ],
)
def test_scripts_of_other_languages_are_told_apart(first: str, is_shell: bool) -> None:
    assert is_shell_script(BatchScript(Source("job.sh", f"{first}\na\n".encode()))) is is_shell


@pytest.mark.parametrize(
    ("line", "is_other"),
    [
        ("source ~/.bashrc", False),
        ("source venv/bin/activate", False),
        (". /etc/profile.d/modules.sh", False),
        ("source $HOME/miniconda3/etc/profile.d/conda.sh", False),
        ("source lib/signals.sh", True),
        (". ./functions", True),
    ],
)
def test_files_that_only_set_an_environment_are_known(line: str, is_other: bool) -> None:
    assert reads_other_scripts(script(f"{line}\n")) is is_other


def test_own_traps_are_those_of_the_batch_shell() -> None:
    text = script("trap 'x' USR1\nsrun bash -c 'trap \"y\" USR1; z'\ntrap - USR1\ntrap 'w' $SIGNAL\n")
    assert [trap.body[0].name for trap in own_traps(text, "USR1")] == ["x", "w"]


def test_the_signal_reaches_steps_or_what_the_trap_names() -> None:
    steps = script("srun a\nb\n", "--signal=USR1@60")
    asked = early_signal(steps)
    assert asked is not None
    assert [(launch.program, signal) for _, launch, signal in reached(steps, asked)] == [("a", "USR1")]
    forwarded = script("a &\np=$!\ntrap 'kill -TERM $p' USR1\nwait\n", "--signal=B:USR1@60")
    asked = early_signal(forwarded)
    assert asked is not None
    assert [(launch.program, signal) for _, launch, signal in reached(forwarded, asked)] == [("a", "TERM")]


def test_a_program_is_named_by_its_own_file() -> None:
    text = script("srun bash run/train.sh x\npython -u a/b.py\n./solver\n$X\n")
    assert [name_of(launch) for _, launch in text.launches] == ["train.sh", "b.py", "solver", "the program"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import signal\nsignal.signal(signal.SIGUSR1, save)\n", {"USR1"}),
        ("from signal import SIGTERM, signal\nsignal(SIGTERM, save)\n", {"TERM"}),
        ("import signal\nfor s in (signal.SIGTERM, signal.SIGUSR2):\n    signal.signal(s, save)\n", {"TERM", "USR2"}),
        ("import signal\nloop.add_signal_handler(signal.SIGTERM, save)\n", {"TERM"}),
        ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n", set()),
        ("import torch\n", set()),
    ],
)
def test_handled_signals_are_those_that_the_program_names(text: str, names: set[str]) -> None:
    assert handled(program(text)) == names


@pytest.mark.parametrize(
    "text",
    [
        "import lightning\n",
        "from . import handlers\n",
        "from project.train import main\nmain()\n",
        "import signal\nNAMES = ['SIGUSR1']\n",
    ],
)
def test_a_handler_may_hide_in_what_is_imported(text: str) -> None:
    assert handles(program(text), "USR1") is None


def test_only_a_program_of_known_imports_surely_handles_nothing() -> None:
    assert handles(program("import os, torch\nfrom torch import nn\n"), "USR1") is False
    assert handles(program("import signal\nsignal.signal(signal.SIGTERM, f)\nimport numpy\n"), "TERM") is True
    assert handles(None, "USR1") is None


HANDLES_USR1 = "import signal\nsignal.signal(signal.SIGUSR1, save)\n"
HANDLES_TERM = "import signal\nsignal.signal(signal.SIGTERM, save)\n"
PLAIN = "import torch\ntorch.save({}, 'x')\n"


def test_a_program_whose_handler_never_runs_is_found() -> None:
    assert "LG401" in codes("srun python train.py\n", beside=HANDLES_USR1)
    assert "LG401" not in codes("srun python train.py\n", "--signal=USR1@300", beside=HANDLES_USR1)
    assert "LG401" not in codes("srun python train.py\n", beside=HANDLES_TERM)
    assert "LG401" not in codes("srun python train.py\n", beside=PLAIN)


def test_lightning_needs_its_signal_under_srun_only() -> None:
    trains = "import lightning as L\nL.Trainer(max_epochs=3).fit(model)\n"
    assert "LG401" in codes("srun python train.py\n", beside=trains)
    assert "LG401" not in codes("srun python train.py\n", "--signal=SIGUSR1@120", beside=trains)
    assert "LG401" not in codes("python train.py\n", beside=trains)


def test_a_shell_that_dies_before_its_program_has_saved_is_found() -> None:
    assert "LG407" in codes("srun python train.py\n", beside=HANDLES_TERM)
    assert "LG407" not in codes("exec srun python train.py\n", beside=HANDLES_TERM)
    assert "LG407" not in codes("trap : TERM\nsrun python train.py\n", beside=HANDLES_TERM)
    assert "LG407" not in codes("srun python train.py\n", beside=PLAIN)


def test_a_signal_that_ends_the_program_is_found() -> None:
    assert "LG412" in codes("srun python train.py\n", "--signal=USR1@300", beside=PLAIN)
    assert "LG412" in codes("srun python train.py\n", "--signal=USR1@300", beside=HANDLES_TERM)
    assert "LG412" not in codes("srun python train.py\n", "--signal=USR1@300", beside=HANDLES_USR1)
    assert "LG412" not in codes("srun python train.py\n", "--signal=USR1@300", beside="import lightning\n")
    assert "LG412" not in codes("srun python train.py\n", "--signal=INT@300", beside=PLAIN)


def test_ranks_that_need_each_other_are_known_by_their_program() -> None:
    several = ("--ntasks=8",)
    assert "LG501" in codes("srun python train.py\n", *several, beside="import torch.distributed as dist\n")
    assert "LG501" in codes("srun python train.py\n", *several, beside="from mpi4py import MPI\n")
    assert "LG501" not in codes("srun python train.py\n", *several, beside=PLAIN)


def test_a_step_is_mended_only_where_no_task_ends_by_itself_after_a_save() -> None:
    def edits(text: str, *options: str, beside: str) -> int:
        context = msgspec.structs.replace(Context(), find_program=lambda near, path: program(beside))
        source = script(text, *options).source
        found = [f for f in audit(source, all_rules(), context).findings if f.rule.code == "LG501"]
        return len(found[0].edits)

    distributed = "import torch.distributed\n"
    assert edits("srun python train.py\n", "--ntasks=8", beside=distributed) == 1
    assert edits("srun python train.py\n", "--ntasks=8", "--signal=USR1@300", beside=distributed) == 0
    assert edits("srun python train.py\n", "--ntasks=8", beside=distributed + HANDLES_TERM) == 0
    assert edits("L='srun'\n$L python train.py\n", "--ntasks=8", beside=distributed) == 0
