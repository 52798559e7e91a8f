"""A program that only its description knows, started by the real launcher."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from lastgood.launch.standing import standing_of
from lastgood.store.attempts import claim_attempt
from lastgood.store.jobdir import create_job, open_job
from launch.conftest import Ended, Launcher, wait_for

from .conftest import refuse_to_save, wait_for_progress

pytestmark = pytest.mark.slow

SOLVER = '''\
"""Adds up numbers. Knows nothing of lastgood; leaves its request to stop behind, as many programs do."""
import os, sys, time
from pathlib import Path

words = sys.argv[1:]
last = int(words[0])
state = words[words.index("--continue") + 1] if "--continue" in words else ""
step = int(Path(state).read_text().split()[1]) if state else 0
print("begins after", step, flush=True)
while step < last:
    step += 1
    name = f"out/state_{step}.chk" if "--alternate" not in words else f"out/{'ab'[step % 2]}.chk"
    Path("out").mkdir(exist_ok=True)
    Path(name).write_text(f"step {step}\\nEND\\n")
    if f"--die={step}" in words and not state:
        os.kill(os.getpid(), 9)
    if f"--say={step}" in words:
        print(os.environ["SAY"], flush=True)
        sys.exit(int(os.environ.get("CODE", "0")))
    if "--talk" in words:
        print("done with step", step, flush=True)
    while f"--hold={step}" in words and not os.path.exists("GO"):
        time.sleep(0.05)
    if os.path.exists("STOP"):
        print("stopped", flush=True)
        sys.exit(0)
    time.sleep(0.2 if "--slow" in words else 0.0)
Path("result.txt").write_text(f"sum {step}\\n")
'''

DESCRIPTION = """\
format = 1
name = "solver"
programs = ["solver.py"]

[checkpoints]
glob = ["out/state_*.chk"]

[check]
content = [{ end = 'END\\n\\Z', pattern = '\\Astep \\d+' }]

[start]
resume = ["--continue", "{checkpoint}"]
remove = ["STOP"]

[stop]
file = "STOP"

[[finished]]
exists = "result.txt"

[[log]]
pattern = '^no room'
outcome = "storage error"

[[log]]
pattern = '^stopped'
outcome = "preempted"
"""


class Solver:
    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.directory = launcher.directory
        (self.directory / "solver.py").write_text(SOLVER)
        self.description = DESCRIPTION

    def words(self, *more: str, options: tuple[str, ...] = ()) -> list[str]:
        (self.directory / "solver.toml").write_text(self.description)
        return ["--app", "solver.toml", *options, "--", sys.executable, "solver.py", *more]

    def run(self, *more: str, options: tuple[str, ...] = ()) -> Ended:
        return self.launcher.run(*self.words(*more, options=options))

    def file(self, name: str) -> Path:
        return self.directory / name


@pytest.fixture
def solver(launcher: Launcher) -> Solver:
    return Solver(launcher)


def test_killed_it_goes_on_from_its_newest_checkpoint_by_number(solver: Solver) -> None:
    ended = solver.run("12", "--die=10")
    assert ended.code == 0
    assert ended.out == "begins after 0\nbegins after 10\n"
    assert "resuming from out/state_10.chk (step 10" in ended.err
    assert solver.launcher.outcomes() == ["killed", "finished"]


def test_a_newest_checkpoint_that_is_cut_is_put_aside_and_the_one_before_is_taken(solver: Solver) -> None:
    assert solver.run("12", "--die=10", options=("--no-restart",)).code != 0
    os.truncate(solver.file("out/state_10.chk"), 5)
    ended = solver.run("12")
    assert ended.code == 0 and ended.out == "begins after 9\n"
    assert "not used: out/state_10.chk: it does not end as it should" in ended.err
    assert solver.file("out/aside-state_10.chk.attempt-2").exists()


def test_a_stop_is_asked_for_by_a_file_which_the_next_start_removes(solver: Solver) -> None:
    process = solver.launcher.start(*solver.words("1000", "--slow"))
    solver.launcher.wait_for_output("begins after")
    process.send_signal(signal.SIGTERM)
    ended = solver.launcher.end_of(process)
    assert ended.code == 75 and ended.out.endswith("stopped\n")
    assert solver.file("STOP").exists()
    step = solver.launcher.event(1, "committed")["step"]
    ended = solver.run(str(step + 3))
    assert ended.code == 0 and ended.out == f"begins after {step}\n"
    assert "STOP is removed: it would stop the run again" in ended.err and not solver.file("STOP").exists()


def test_one_that_cannot_be_asked_is_ended_at_its_next_checkpoint(solver: Solver) -> None:
    solver.description = solver.description.replace('file = "STOP"', "wait = true").replace('remove = ["STOP"]', "")
    process = solver.launcher.start(*solver.words("1000", "--slow"))
    solver.launcher.wait_for_output("begins after")
    process.send_signal(signal.SIGTERM)
    ended = solver.launcher.end_of(process)
    assert ended.code == 75 and "it is ended at its next checkpoint" in ended.err
    assert not solver.file("STOP").exists()
    step = solver.launcher.event(1, "committed")["step"]
    assert step > 0 and solver.run(str(step + 3)).out == f"begins after {step}\n"


IN_PLACE = """\
import os, time

print("ready", flush=True)
while not os.path.exists("GO"):
    time.sleep(0.05)
with open("restart.dat", "w") as file:
    for number in range(12):
        print("part", number, file=file, flush=True)
        time.sleep(0.25)
while True:
    time.sleep(0.05)
"""


def test_what_does_not_tell_its_end_is_not_ended_while_it_is_written(solver: Solver) -> None:
    solver.file("solver.py").write_text(IN_PLACE)
    for old, new in (
        ("out/state_*.chk", "restart.dat"),
        ("[check]\ncontent = [{ end = 'END\\n\\Z', pattern = '\\Astep \\d+' }]\n", ""),
        ('file = "STOP"', "wait = true"),
    ):
        assert old in solver.description
        solver.description = solver.description.replace(old, new)
    process = solver.launcher.start(*solver.words())
    solver.launcher.wait_for_output("ready")
    process.send_signal(signal.SIGTERM)
    solver.launcher.wait_for_output("it is ended at its next checkpoint", "err")
    solver.file("GO").touch()
    assert solver.launcher.end_of(process).code == 75
    assert solver.file("restart.dat").read_text().splitlines()[-1] == "part 11"


def test_checkpoints_of_the_same_name_in_two_places_are_told_apart(solver: Solver) -> None:
    solver.description = solver.description.replace('"out/state_*.chk"', '"out/*.chk", "spare/*.chk"')
    for directory, step, at_s in (("out", 9, 1000), ("spare", 5, 2000)):
        path = solver.file(f"{directory}/state_9.chk")
        path.parent.mkdir()
        path.write_text(f"step {step}\nEND\n")
        os.utime(path, (at_s, at_s))
    assert solver.run("12").out == "begins after 5\n"


def test_exit_code_0_without_a_result_is_no_end(solver: Solver) -> None:
    solver.launcher.environment["SAY"] = "bye"
    ended = solver.run("12", "--say=4")
    assert ended.code == 1 and "exit code 0 at step 4, but no finished test of the description holds" in ended.err
    assert solver.launcher.outcomes() == ["program error"]


def test_its_words_tell_what_its_code_does_not(solver: Solver) -> None:
    solver.launcher.environment |= {"SAY": "no room for state", "CODE": "3"}
    solver.run("12", "--say=4", options=("--no-restart",))
    assert solver.launcher.outcomes() == ["storage error"]
    assert "its output says: no room for state" in solver.launcher.log


def test_a_run_that_is_done_is_not_started_again(solver: Solver) -> None:
    assert solver.run("5").code == 0
    ended = solver.run("5")
    assert ended.code == 0 and ended.out == "" and "has nothing to do: step 5 is reached" in ended.err


@pytest.mark.parametrize(
    "test",
    [
        'exists = "out/state_{total}.chk"',
        'file = "{checkpoint}"\npattern = "step 5"\nexists = "out/state_{step}.chk"',
        'exists = "{last}"\n[values.last]\ntext = "out/state_{total}.chk"',
    ],
)
def test_a_test_of_the_end_may_name_the_step_and_the_total(solver: Solver, test: str) -> None:
    solver.file("steps.txt").write_text("5\n")
    total = "[checkpoints.total]\nfile = 'steps.txt'\npattern = '[0-9]+'\n\n[check]"
    solver.description = DESCRIPTION.replace('exists = "result.txt"', test).replace("[check]", total)
    ended = solver.run("5", "--die=3")
    assert ended.code == 0 and ended.out == "begins after 0\nbegins after 3\n"
    assert "has nothing to do: step 5 of 5 is reached" in solver.run("5").err


def test_a_run_that_was_done_before_its_first_checkpoint_is_not_started_again(solver: Solver) -> None:
    assert solver.run("0").code == 0
    ended = solver.run("0")
    assert ended.code == 0 and ended.out == "" and "has nothing to do: the results are there" in ended.err


def test_a_run_that_deletes_its_checkpoints_when_it_is_done_is_not_refused(solver: Solver) -> None:
    assert solver.run("5").code == 0
    shutil.rmtree(solver.directory / "out")
    ended = solver.run("5")
    assert ended.code == 0 and ended.out == "" and "has nothing to do: the results are there" in ended.err
    assert solver.launcher.event(2, "started")["step"] == 5


def test_results_from_before_the_first_attempt_that_ran_or_the_last_new_start_do_not_count(solver: Solver) -> None:
    solver.file("result.txt").write_text("of another time\n")
    claim_attempt(create_job(solver.launcher.job), "one that died before it began", fresh=False, restarts={})
    assert solver.run("0").out == "begins after 0\n"
    assert solver.run("no number", options=("--fresh", "--no-restart")).code == 1
    assert solver.run("0").out == "begins after 0\n"


def test_after_fresh_neither_old_checkpoints_nor_old_results_count(solver: Solver) -> None:
    assert solver.run("5").code == 0
    solver.launcher.environment["SAY"] = "bye"
    ended = solver.run("5", "--say=2", options=("--fresh",))
    assert ended.code == 1 and ended.out == "begins after 0\nbye\n"
    assert solver.run("5").out == "begins after 2\n"


def test_where_its_checkpoints_are_gone_it_does_not_begin_from_zero(solver: Solver) -> None:
    assert solver.run("12", "--die=10", options=("--no-restart",)).code != 0
    for path in solver.file("out").iterdir():
        path.unlink()
    ended = solver.run("12")
    assert ended.code == 80 and "will not start solver from zero" in ended.err and ended.out == ""


def test_of_two_names_in_alternation_the_later_step_is_the_newest(solver: Solver) -> None:
    solver.description = solver.description.replace(
        'glob = ["out/state_*.chk"]',
        'glob = ["out/?.chk"]\norder = "step"\n[checkpoints.step]\nfile = "{checkpoint}"\npattern = \'step (\\d+)\'',
    )
    ended = solver.run("12", "--alternate", "--die=7")
    assert ended.code == 0 and ended.out == "begins after 0\nbegins after 7\n"
    assert "resuming from out/b.chk (step 7" in ended.err


@pytest.mark.parametrize(
    ("command", "limit_s", "words"),
    [
        ("['grep', '-q', 'step 9', '{checkpoint}']", 60, "not used: out/state_10.chk: grep ended with 1"),
        (
            "['sh', '-c', 'test $1 != out/state_10.chk || sleep 600', 'sh', '{checkpoint}']",
            15,  # also for those that answer at once, on a machine that lets them wait
            "sh gave no answer within 15 s",
        ),
    ],
)
def test_a_command_decides_what_is_whole_within_its_limit(
    solver: Solver, command: str, limit_s: float, words: str
) -> None:
    check = f"[check]\ncommand = {command}\ncommand_limit_s = {limit_s}"
    solver.description = solver.description.replace("[check]", check)
    ended = solver.run("12", "--die=10")
    assert ended.code == 0 and ended.out == "begins after 0\nbegins after 9\n" and words in ended.err


def test_a_command_that_checks_and_is_not_there_is_named(solver: Solver) -> None:
    solver.description = solver.description.replace("[check]", "[check]\ncommand = ['no-such-program']")
    ended = solver.run("12", "--die=10")
    assert ended.code == 2 and "check.command: cannot run no-such-program" in ended.err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("resume =", "resmue =", "solver.toml:12: start.resmue is no key of a description"),
        ('programs = ["solver.py"]', 'programs = ["other"]', "the command runs no other"),
        ('"{checkpoint}"]', '"{chekpoint}"]', "{chekpoint} is not known here"),
    ],
)
def test_a_wrong_description_starts_nothing(solver: Solver, old: str, new: str, words: str) -> None:
    solver.description = solver.description.replace(old, new)
    ended = solver.run("5")
    assert ended.code == 2 and words in ended.err and ended.out == ""


def test_two_launchers_do_not_work_on_the_same_checkpoints(solver: Solver, tmp_path: Path) -> None:
    process = solver.launcher.start(*solver.words("1000", "--slow"))
    solver.launcher.wait_for_output("begins after")
    other = solver.launcher.run(*solver.words("1000"), job=tmp_path / "other")
    assert other.code == 86 and "another launcher runs solver" in other.err
    process.send_signal(signal.SIGTERM)
    assert solver.launcher.end_of(process).code == 75


def test_it_tells_its_steps_and_what_a_kill_has_cost(solver: Solver) -> None:
    solver.description = DESCRIPTION.replace("[stop]", "[progress]\noutput = '^done with step ([0-9]+)$'\n\n[stop]")
    # From the fourth step on its checkpoints are of no use.
    solver.description = solver.description.replace(r"\Astep \d+", r"\Astep [123]\n")
    process = solver.launcher.start(*solver.words("9", "--slow", "--talk", "--hold=4", "--die=9"))
    wait_for_progress(solver.launcher)
    refuse_to_save(solver.launcher, "the description of solver has no [save]")
    solver.file("GO").touch()
    solver.launcher.end_of(process)
    assert solver.launcher.outcomes()[0] == "killed"
    first = standing_of(open_job(solver.launcher.job)).attempts[0]
    assert solver.launcher.event(1, "ended")["step"] == 8, "by its words; it died behind its ninth checkpoint"
    assert (first.is_loss_known, first.reached_step, first.lost_steps) == (True, 9, 6)


def test_it_is_asked_to_save_and_carry_on_as_it_is_described(solver: Solver) -> None:
    solver.description = DESCRIPTION + "\n[save]\nfile = 'SAVE'\n"
    process = solver.launcher.start(*solver.words("1000", "--slow", "--talk"))
    solver.launcher.wait_for_output("done with step 1")
    process.send_signal(signal.SIGUSR2)
    solver.launcher.wait_for_output("SIGUSR2: save and carry on", "err")
    wait_for((solver.directory / "SAVE").exists, "the file")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert solver.launcher.end_of(process).code == 75


BY_SIGNAL = """\
import os, signal, sys, time
from pathlib import Path

def save(number, frame):
    Path("out").mkdir(exist_ok=True)
    Path("out/state_1.chk").write_text("step 1\\nEND\\n")
    print("saved on", signal.Signals(number).name, flush=True)
    if number == signal.SIGHUP:
        sys.exit(0)

for number in (signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, save)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def by_signal(solver: Solver) -> list[str]:
    """Behind a shell, a program that SIGHUP asks to save and stop, SIGUSR1 to save, and that knows no other signal."""
    (solver.directory / "by_signal.py").write_text(BY_SIGNAL)
    solver.description = DESCRIPTION.replace('file = "STOP"', 'signal = "HUP"').replace('remove = ["STOP"]', "")
    solver.description = solver.description.replace('programs = ["solver.py"]', 'programs = ["sh"]')
    solver.description += '\n[save]\nsignal = "USR1"\n'
    return [*solver.words()[:-2], "sh", "-c", f"{sys.executable} by_signal.py; echo the shell goes on"]


def test_the_signal_that_it_stops_at_is_the_one_that_is_sent(solver: Solver, by_signal: list[str]) -> None:
    process = solver.launcher.start(*by_signal)
    solver.launcher.wait_for_output("ready")
    process.send_signal(signal.SIGTERM)
    ended = solver.launcher.end_of(process)
    assert ended.code == 75 and ended.out == "ready\nsaved on SIGHUP\n"


def test_asked_to_save_by_its_own_signal_what_does_not_know_that_carries_on(
    solver: Solver, by_signal: list[str]
) -> None:
    process = solver.launcher.start(*by_signal)
    solver.launcher.wait_for_output("ready")
    process.send_signal(signal.SIGUSR2)
    solver.launcher.wait_for_output("SIGUSR2: save and carry on; passed to 1 process(es)", "err")
    solver.launcher.wait_for_output("saved on SIGUSR1")
    process.send_signal(signal.SIGTERM)
    assert solver.launcher.end_of(process).out == "ready\nsaved on SIGUSR1\nsaved on SIGHUP\n"
