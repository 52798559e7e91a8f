"""Restarts from a standby: one is there when it is needed, and where it could differ from a cold start it is not used.

That it does not differ in anything that a program can see is in test_standby_equality.py.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lastgood.trial.processes import is_alive, words_of

from .conftest import MARK, Ended, Launcher, wait_for

pytestmark = pytest.mark.slow

PROGRAM = """
IMPORTS
import os, signal, sys, time
import numpy as np
import lastgood
BEFORE
x = np.zeros(2)
run = lastgood.Run({"x": x}, every=1)
order = os.path.join(os.environ["LASTGOOD_JOB"], "order-" + os.environ["LASTGOOD_ATTEMPT"])
for step in run.steps(100_000):
    x += step
    AFTER
    time.sleep(0.02)
    if os.path.exists(order):
        if open(order).read() == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        run.finish()
        break
print("sum is right:", x[0] == step * (step + 1) // 2, flush=True)
"""


class Standing:
    """A launcher with --standby, whose program lives until it is told how to end."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.directory = launcher.directory
        self.site = self.directory / "site-packages"
        """Modules in it count as installed."""
        self.site.mkdir()
        launcher.environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(self.site), os.environ.get("PYTHONPATH")))
        )
        self.attempt = 1

    def start(
        self, *options: str, imports: str = "", before: str = "", after: str = "", command: list[Any] | None = None
    ) -> None:
        source = PROGRAM.replace("IMPORTS", imports).replace("BEFORE", before).replace("AFTER", after)
        (self.directory / "train.py").write_text(source)
        self.launcher.start("--standby", *options, "--", *(command or [sys.executable, "train.py"]))

    def wait(self) -> dict[str, Any]:
        """What the launcher says of the standby of this attempt: ready, or not and why."""
        events = self.launcher.events
        wait_for(lambda: any(e["kind"] == "standby" for e in events(self.attempt)), "a standby, or word of why not")
        return self.launcher.event(self.attempt, "standby")

    def process(self) -> psutil.Process:
        """The standby that is ready."""
        launcher = psutil.Process(self.launcher.processes[-1].pid)
        running = self.launcher.event(self.attempt, "launched")["pid"]
        names = [c for c in launcher.children() if c.pid != running and "train.py" in words_of(c)]
        assert len(names) == 1, names
        return names[0]

    def living(self) -> int:
        """How many processes there are: launcher, program, and what else they started; the keeper apart."""
        return sum("keeper" not in " ".join(words_of(process)) for process in self.launcher.survivors())

    def kill(self) -> bool:
        """Whether the attempt after this one began from a standby."""
        self._order("kill")
        self.attempt += 1
        wait_for(lambda: any(e["kind"] == "launched" for e in self.launcher.events(self.attempt)), "the next attempt")
        return bool(self.launcher.event(self.attempt, "launched")["is_standby"])

    def finish(self) -> Ended:
        self._order("finish")
        return self.launcher.end_of(self.launcher.processes[-1])

    def _order(self, how: str) -> None:
        # Until it has done a step it does not look.
        wait_for(lambda: any(e["kind"] == "committed" for e in self.launcher.events(self.attempt)), "a step")
        new = self.launcher.job / "order.new"
        new.write_text(how)
        new.rename(self.launcher.job / f"order-{self.attempt}")

    def cold_because(self) -> str:
        """Kill the attempt, which must lead to a cold start; the reason that the launcher gives."""
        assert not self.kill()
        ended = self.finish()
        assert ended.code == 0, ended.err
        assert "sum is right: True" in ended.out
        marks = [line for line in ended.err.splitlines() if "this start is a cold one: " in line]
        assert len(marks) == 1, ended.err
        return marks[0].partition("cold one: ")[2]


@pytest.fixture
def standing(launcher: Launcher) -> Iterator[Standing]:
    return Standing(launcher)


def test_a_killed_program_goes_on_in_the_standby_and_a_new_one_takes_its_place(standing: Standing) -> None:
    standing.start()
    for _ in range(2):
        assert standing.wait()["is_ready"]
        pid = standing.process().pid
        assert standing.kill()
        assert standing.launcher.event(standing.attempt, "launched")["pid"] == pid
    standing.wait()
    ended = standing.finish()
    assert ended.code == 0
    assert "sum is right: True" in ended.out
    assert ended.err.count("the standby takes over") == 2
    assert "cold" not in ended.err
    assert standing.launcher.outcomes() == ["killed", "killed", "finished"]


def test_what_a_standby_takes_is_measured_shown_and_the_first_to_be_given_up(standing: Standing) -> None:
    standing.start()
    said = standing.wait()
    assert said["modules"] > 100
    assert 1e6 < said["uss_bytes"] <= said["pss_bytes"] < 1e9
    standing.launcher.wait_for_output("of memory of its own", "err")
    process = standing.process()
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text() == "1000\n"
    assert process.nice() == psutil.Process(standing.launcher.processes[0].pid).nice()
    wait_for(lambda: process.status() == psutil.STATUS_SLEEPING, "it sleeps")
    status = [sys.executable, "-m", "lastgood", "status", str(standing.launcher.job)]
    shown = subprocess.run(status, capture_output=True, text=True, timeout=180, check=True).stdout
    assert f"standby    ready: {said['modules']} modules imported, " in shown
    standing.finish()
    shown = subprocess.run(status, capture_output=True, text=True, timeout=180, check=True).stdout
    assert "standby  " not in shown


def test_signals_and_the_search_for_leftovers_pass_the_standby_by(standing: Standing) -> None:
    standing.start(before="import subprocess; subprocess.Popen(['sleep', '600'])")
    standing.wait()
    standing.launcher.processes[-1].send_signal(signal.SIGUSR2)
    standing.launcher.wait_for_output("passed to 1 process(es)", "err")
    assert standing.kill()
    standing.wait()
    assert "1 process(es) of it still run" in standing.launcher.output(-1, "err")
    standing.finish()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_standby_outlives_its_launcher(standing: Standing, how: signal.Signals) -> None:
    standing.start()
    standing.wait()
    process = standing.process()
    standing.launcher.processes[-1].send_signal(how)
    wait_for(lambda: not is_alive(process.pid), "the standby's end")
    standing.launcher.processes[-1].wait(180)
    wait_for(lambda: not standing.launcher.survivors(), "no process left")


WAITS_WHILE_TOLD_TO = """
import os, time
while os.path.exists("block"):
    time.sleep(0.02)
"""


def test_a_standby_that_is_still_importing_dies_with_its_launcher(standing: Standing) -> None:
    (standing.site / "slow.py").write_text(WAITS_WHILE_TOLD_TO)
    standing.start(imports="import slow", after="open('block', 'w').close()")
    wait_for(lambda: standing.living() == 3, "launcher, program, standby")
    standing.launcher.processes[-1].kill()
    wait_for(lambda: not standing.launcher.survivors(), "no process left")


def test_one_that_is_not_ready_is_not_waited_for(standing: Standing) -> None:
    (standing.site / "slow.py").write_text(WAITS_WHILE_TOLD_TO)
    standing.start(imports="import slow", after="open('block', 'w').close() if step == 1 else None")
    wait_for(lambda: standing.living() == 3, "launcher, program, standby")
    standing._order("kill")
    standing.launcher.wait_for_output("this start is a cold one: the standby is not ready yet", "err")
    (standing.directory / "block").unlink()
    standing.attempt = 2
    assert standing.finish().code == 0


def test_a_program_that_dies_before_its_first_step_is_started_cold(standing: Standing) -> None:
    standing.start(before="if os.environ['LASTGOOD_ATTEMPT'] == '1': os.kill(os.getpid(), signal.SIGKILL)")
    standing.attempt = 2
    assert standing.wait()["is_ready"]
    ended = standing.finish()
    assert "this start is a cold one: the attempt before it had not done a step yet" in ended.err


def test_none_is_kept_for_the_last_attempt(standing: Standing) -> None:
    standing.start("--max-restarts", "1")
    standing.wait()
    assert standing.kill()
    ended = standing.finish()
    assert ended.code == 0
    assert not any(e["kind"] == "standby" for e in standing.launcher.events(2))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["bash", "-c", "true"], "the command is neither `python SCRIPT` nor `python -m MODULE`"),
        ([sys.executable, "-c", "pass"], "the command is neither `python SCRIPT` nor `python -m MODULE`"),
        (
            [sys.executable, "-m", "torch.distributed.run", "--help"],
            "torchrun's option --help is none of those with which it is known to work",
        ),
    ],
)
def test_a_command_that_it_cannot_stand_in_for_is_run_and_that_is_said(
    launcher: Launcher, command: list[str], why: str
) -> None:
    ended = launcher.run("--standby", "--no-restart", "--", *command)
    assert f"--standby has no effect: {why}" in ended.err
    assert launcher.outcomes()


def test_an_interpreter_that_takes_no_notice_of_its_environment_never_runs_the_script_beside_the_attempt(
    standing: Standing,
) -> None:
    standing.start(
        command=[sys.executable, "-I", "train.py"],
        imports=f"import sys; sys.path[:0] = {[str(standing.site), *os.environ.get('PYTHONPATH', '').split(':')]!r}",
        before="open('starts', 'a').write('x')",
    )
    why = standing.wait()["reason"]
    assert why == "this interpreter, with its options, does not come by the place where a standby waits"
    assert (standing.directory / "starts").read_text() == "x"
    standing.cold_because()
    assert (standing.directory / "starts").read_text() == "xx"


def test_a_script_that_has_changed_is_started_cold(standing: Standing) -> None:
    standing.start()
    standing.wait()
    with open(standing.directory / "train.py", "a") as file:
        file.write("\n")
    assert standing.cold_because() == f"{standing.directory / 'train.py'} has changed"


def test_an_installed_module_and_one_of_the_programs_own_that_have_changed_are_imported_anew(
    standing: Standing,
) -> None:
    for file in (standing.site / "installed.py", standing.directory / "own.py"):
        file.write_text("version = 1\n")
    standing.start(imports="import installed, own", before="print('versions', installed.version, own.version)")
    for file in (standing.site / "installed.py", standing.directory / "own.py"):
        standing.wait()
        file.write_text("version = 22\n")
        assert not standing.kill()
        standing.launcher.wait_for_output(f"cold one: {file} has changed", "err")
    ended = standing.finish()
    said = [line for line in ended.out.splitlines() if line.startswith("versions")]
    assert said == ["versions 1 1", "versions 22 1", "versions 22 22"]


def test_a_file_that_comes_to_hide_an_installed_module_is_noticed(standing: Standing) -> None:
    (standing.site / "installed.py").write_text("")
    standing.start(imports="import installed")
    standing.wait()
    (standing.directory / "installed.py").write_text("")
    assert "installed.py has come or gone" in standing.cold_because()


def test_a_launcher_that_was_moved_to_other_processors_starts_cold(standing: Standing) -> None:
    launcher = psutil.Process(os.getpid())
    if len(launcher.cpu_affinity()) < 2:
        pytest.skip("needs two processors")
    standing.start()
    standing.wait()
    psutil.Process(standing.launcher.processes[-1].pid).cpu_affinity(launcher.cpu_affinity()[:1])
    assert standing.cold_because() == "the launcher's CPU affinity has changed"


def test_a_standby_that_has_died_or_does_not_answer_is_replaced_by_a_cold_start(standing: Standing) -> None:
    standing.start()
    standing.wait()
    standing.process().kill()
    standing.launcher.wait_for_output("no standby: it was ended by SIGKILL", "err")
    assert not standing.kill()
    standing.wait()
    standing.process().suspend()
    assert not standing.kill()
    ended = standing.finish()
    assert "this start is a cold one: it was ended by SIGKILL" in ended.err
    assert "this start is a cold one: the standby does not go on" in ended.err
    assert standing.launcher.outcomes() == ["killed", "killed", "finished"]


REFUSALS = {
    "a module that cannot be imported ahead": (
        "import os\nif os.environ.get('LASTGOOD_PARK', os.path.exists('ran')): 1 / 0\nopen('ran', 'w').close()\n",
        "installed cannot be imported ahead: ZeroDivisionError: division by zero",
    ),
    "a module that imports one of the program's own": (
        "try:\n    import own\nexcept:\n    pass\n",
        "an installed module imports {directory}/own.py, which is the program's own",
    ),
    "a module that keeps a file open": (
        "import os\nfd = os.open('/dev/zero', os.O_RDONLY)\n",
        "an imported module keeps /dev/zero open",
    ),
    "a module that starts a process": (
        "import subprocess\nprocess = subprocess.Popen(['sleep', '600'], close_fds=True)\n",
        "an imported module has started a process",
    ),
    "a module that changes the arguments": (
        "import sys\nsys.argv.append('more')\n",
        "an imported module changes sys.argv, the beginning of sys.path, or __main__",
    ),
    "a module that leaves its mark on the script": (
        "import __main__\n__main__.mark = 1\n",
        "an imported module changes sys.argv, the beginning of sys.path, or __main__",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_modules_that_would_not_be_the_same_when_they_are_imported_ahead_are_not(standing: Standing, case: str) -> None:
    source, why = REFUSALS[case]
    (standing.site / "installed.py").write_text(source)
    (standing.directory / "own.py").write_text(
        "open('own-ran-' + __import__('os').environ['LASTGOOD_ATTEMPT'], 'a').write('x')"
    )
    standing.start(imports="import installed, own")
    assert standing.wait() == {"is_ready": False, "reason": why.format(directory=standing.directory)}
    assert (standing.directory / "own-ran-1").read_text() == "x"
    # One that has just been killed may take a moment to be gone.
    wait_for(lambda: standing.living() == (3 if "starts a process" in case else 2), "nothing of the standby left")
    (standing.directory / "ran").unlink(missing_ok=True)
    standing.cold_because()


def test_a_variable_that_the_program_sets_before_it_imports_who_reads_it_is_found_out(standing: Standing) -> None:
    (standing.site / "reader.py").write_text("import os\nvalue = os.environ.get('WANDB_MODE')\n")
    standing.start(imports="import os; os.environ['WANDB_MODE'] = 'off'; import reader", before="print(reader.value)")
    assert standing.wait()["reason"].startswith("the program sets WANDB_MODE, which modules")
    assert not standing.kill()
    assert standing.finish().out.splitlines()[:2] == ["off", "off"]


def test_a_variable_that_a_library_may_read_while_it_is_loaded_is_found_out(standing: Standing) -> None:
    standing.start(imports="import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'")
    assert standing.wait()["reason"].startswith("the program sets OPENBLAS_NUM_THREADS, which modules")
    standing.cold_because()


def test_variables_that_no_later_import_reads_are_the_programs_own_affair(standing: Standing) -> None:
    (standing.site / "reader.py").write_text(
        "import os\nvalue = os.environ.get('HER_OWN_CHOICE')\nos.environ['MINE'] = 'set'\n"
    )
    standing.start(
        imports="import reader\nimport os\nos.environ['HER_OWN_CHOICE'] = '1'\nos.environ['MASTER_PORT'] = '7'\nimport colorsys",
        before="print(reader.value, os.environ['MINE'], os.environ['HER_OWN_CHOICE'], flush=True)",
    )
    assert standing.wait()["is_ready"]
    assert standing.kill()
    assert standing.finish().out.splitlines()[:2] == ["None set 1"] * 2


def test_random_numbers_that_an_import_takes_after_a_seed_are_not_taken_ahead(standing: Standing) -> None:
    (standing.site / "drawer.py").write_text("import random\nrandom.random()\n")
    draws = "print('draws', random.random())"
    standing.start(imports="import random\nrandom.seed(1)\nimport drawer", before=draws)
    assert "takes random numbers (random)" in standing.wait()["reason"]
    assert not standing.kill()
    first, second, *_ = standing.finish().out.splitlines()
    assert first == second


def test_random_numbers_that_the_first_imports_take_come_before_any_seed(standing: Standing) -> None:
    (standing.site / "drawer.py").write_text("import random\nrandom.random()\n")
    standing.start(imports="import drawer, random\nrandom.seed(1)", before="print('draws', random.random())")
    assert standing.wait()["is_ready"]
    assert standing.kill()
    first, second, *_ = standing.finish().out.splitlines()
    assert first == second


def test_what_imports_print_is_printed_once_by_each_attempt(standing: Standing) -> None:
    (standing.site / "talker.py").write_text("import sys\nprint('out')\nprint('err', file=sys.stderr)\n")
    standing.start(imports="import talker")
    standing.wait()
    assert standing.launcher.output(-1).count("out") == 1
    assert standing.kill()
    ended = standing.finish()
    assert ended.out.splitlines()[:2] == ["out", "out"]
    assert ended.err.splitlines().count("err") == 2


def test_another_sitecustomize_runs_in_a_standby_as_in_any_start_and_a_usercustomize_is_left_to_those(
    standing: Standing,
) -> None:
    (standing.site / "sitecustomize.py").write_text("import builtins, os\nbuiltins.mark = 'by ' + __name__\n")
    standing.start(before="print(mark, sys.modules['sitecustomize'].__file__, flush=True)")
    assert standing.wait()["is_ready"]
    assert standing.kill()
    said = standing.finish().out.splitlines()[:2]
    assert said == [f"by sitecustomize {standing.site}/sitecustomize.py"] * 2


def test_a_sitecustomize_that_fails_is_reported_as_by_any_start(standing: Standing) -> None:
    (standing.site / "sitecustomize.py").write_text("raise KeyError('broken')\n")
    standing.start(before="print('sitecustomize' in sys.modules, flush=True)")
    assert standing.wait()["is_ready"]
    assert standing.kill()
    ended = standing.finish()
    assert ended.out.splitlines()[:2] == ["False", "False"]
    error = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\nKeyError: 'broken'"
    assert standing.launcher.log.count(error) == 2


def test_the_processes_carry_the_mark_by_which_survivors_are_found(standing: Standing) -> None:
    standing.start()
    standing.wait()
    assert standing.process().environ()[MARK] == standing.launcher.mark
    standing.finish()
