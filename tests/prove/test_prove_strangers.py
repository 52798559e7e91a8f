"""Programs that a stranger brings to a proof: what they print and write in unusual ways is not misread."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import prove_loops as loops
import pytest

from lastgood.cli.main import main
from lastgood.prove.asked import asked_in_vain, estimates_in_vain
from lastgood.prove.checkpoint_files import Units
from lastgood.prove.difference import Comparison
from lastgood.prove.json_leaves import differing_leaves, without_leaves
from lastgood.prove.killing import Hit
from lastgood.prove.output_lines import Finders, series_of_attempts
from lastgood.prove.plan_of_kills import Kill, Phase, Profile
from lastgood.prove.resuming import Resumed, resumed_after
from lastgood.prove.shown import Shown
from lastgood.prove.verdict import Answer, Killed, Part, judge
from lastgood.prove.watching import Said, Written
from lastgood.trial.lines import Follower
from lastgood.trial.place import Place, make_place
from lastgood.trial.processes import is_alive
from lastgood.trial.target import Target, Way


def texts(follower: Follower, *, is_over: bool = False) -> list[str]:
    return [line.text for line in follower.new_lines(0.0, is_over=is_over)]


class TestOutputWithoutNewlines:
    def test_a_line_that_nobody_ends_is_read_when_the_program_has_ended(self, tmp_path: Path) -> None:
        output = tmp_path / "output.txt"
        output.write_text("\r step 59\r step 60")
        follower = Follower(output)
        assert texts(follower) == ["", " step 59"]
        assert texts(follower, is_over=True) == [" step 60"]
        assert texts(follower, is_over=True) == []

    def test_such_a_line_is_not_joined_with_the_first_of_the_next_start(self, tmp_path: Path) -> None:
        output = tmp_path / "output.txt"
        output.write_text("\r step 35")
        follower = Follower(output)
        texts(follower, is_over=True)
        with output.open("a") as file:
            file.write("\r step 31\r")
        assert texts(follower) == ["", " step 31"]

    def test_what_the_launcher_says_behind_such_a_line_is_a_line_of_its_own(self, tmp_path: Path) -> None:
        output = tmp_path / "output.txt"
        output.write_text("step 60 energy 1.5lastgood: attempt 1 finished after 2 s: exit code 0\n")
        assert texts(Follower(output)) == [
            "step 60 energy 1.5",
            "lastgood: attempt 1 finished after 2 s: exit code 0",
        ]


class TestDocumentsThatAreAlikeInPart:
    def test_what_differs_between_two_runs_is_left_out_and_the_rest_stays(self) -> None:
        left = {"y": 1.5, "when": 10.0, "runs": [{"took": 1, "n": 3}]}
        right = {"y": 1.5, "when": 11.0, "runs": [{"took": 2, "n": 3}]}
        leaves = differing_leaves(left, right)
        assert leaves == (("when",), ("runs", 0, "took"))
        assert without_leaves(left, leaves) == {"y": 1.5, "runs": [{"n": 3}]}

    @pytest.mark.parametrize(
        ("left", "right"), [({"y": 1}, {"y": 2}), ({"y": 1, "z": 2}, {"y": 1}), ([1, 2], [1, 2, 3]), ({"y": 1}, [1])]
    )
    def test_documents_that_are_built_otherwise_or_share_nothing_are_not_alike_in_part(
        self, left: object, right: object
    ) -> None:
        assert differing_leaves(left, right) is None


LOOP = """
import json, os, sys, time
s, x, y, resumed = 0, 1.0, 0.0, False
if os.path.exists("ck.json"):
    saved = json.load(open("ck.json"))
    s, x, resumed = saved["s"], saved["x"], True
while s < 24:
    x = (3.9 * x * (5 - x) / 5) % 4.7
    s += 1
    y += x
    looks = os.path.getsize(os.environ["LOOKS"])
    while os.path.getsize(os.environ["LOOKS"]) == looks:
        time.sleep(0.001)
    time.sleep(0.02)
    {show}
    if s % 8 == 0:
        json.dump({"s": s, "x": x}, open("t.tmp", "w"))
        os.replace("t.tmp", "ck.json")
{end}
"""


def proof(directory: Path, show: str, end: str, *options: str) -> dict[str, Any]:
    directory.mkdir()
    (directory / "loop.py").write_text(LOOP.replace("{show}", show).replace("{end}", end))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            loops.LASTGOOD,
            "prove",
            "--kills",
            "1",
            "--json",
            *options,
            "--",
            sys.executable,
            "loop.py",
        ],
        cwd=directory,
        env={**os.environ, "TMPDIR": str(directory.parent), "LOOKS": str(directory.with_name("looks"))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == {"identical": 0, "diverged": 1, "unknown": 3}[answer["answer"]]
    return answer


@pytest.mark.slow
class TestWhatIsNotInTheLoggedValues:
    def test_a_result_that_is_only_printed_in_the_end_or_lies_beside_a_time_is_compared(self, tmp_path: Path) -> None:
        answer = proof(
            tmp_path / "work",
            'print("step", s, "x", x, flush=True)',
            'json.dump({"y": y, "when": time.time()}, open("result.json", "w")); print("RESULT mean y =", y / 24)',
        )
        assert answer["answer"] == "diverged"
        parts = {part["name"]: part for part in answer["runs"][-1]["parts"]}
        assert parts["logged values"]["kind"] == "identical"
        assert parts["values in the end of its output"]["kind"] == "differs"
        assert parts["values in final files"]["kind"] == "differs"

    def test_files_that_nothing_is_compared_of_are_named_with_the_answer(self, tmp_path: Path) -> None:
        answer = proof(
            tmp_path / "work",
            'print("step", s, "x", x, flush=True)',
            'print(time.time(), file=open("times.txt", "w")); resumed and open("lost.txt", "w").write("one sample")',
        )
        assert answer["answer"] == "identical"
        assert answer["reason"].endswith("; not compared: times.txt")
        assert any(note.startswith("times.txt is not compared") for note in answer["notes"])
        assert "killed-1: it has written lost.txt, which no undisturbed run has" in answer["notes"]


class TestSeveralLinesOfAStep:
    FINDERS = Finders(step=r"step (\d+)", is_step_guessed=True, is_values_guessed=True)

    def test_each_rank_that_prints_the_same_name_is_compared(self) -> None:
        lines = ["rank 0 step 1 loss 0.5", "rank 1 step 1 loss 0.25", "rank 0 step 2 loss 0.125"]
        ((_, series),) = series_of_attempts([lines], self.FINDERS)
        assert series == {
            1: {"rank": "0", "loss": "0.5", "rank (2)": "1", "loss (2)": "0.25"},
            2: {"rank": "0", "loss": "0.125"},
        }

    def test_lines_that_tell_no_step_add_nothing_to_what_is_compared_but_the_last(self) -> None:
        finders = Finders(values={"mean": r"mean ([0-9.]+)"})
        ((_, series),) = series_of_attempts([["mean 1.5", "mean 2.5"]], finders)
        assert series == {0: {"mean": "2.5"}}

    def test_of_a_step_that_is_come_back_to_the_newer_lines_count(self) -> None:
        lines = ["epoch 1 step 1 loss 0.5", "epoch 1 step 2 loss 0.4", "epoch 2 step 1 loss 0.3"]
        ((_, series),) = series_of_attempts([lines], self.FINDERS)
        assert series[1]["loss"] == "0.3"
        assert "loss (2)" not in series[1]


class TestWhatWasAskedForAndIsNotThere:
    @pytest.fixture
    def shown(self, tmp_path: Path) -> Shown:
        target = Target(command=("true",), directory=tmp_path / "empty")
        target.directory.mkdir()
        place = make_place(tmp_path / "runs", "first", target)
        (place.work / "final.npy").write_text("")
        return Shown(
            name="first",
            place=place,
            way=Way.AGAIN,
            began=0.0,
            duration_s=1.0,
            exit_code=0,
            lines=[Said(float(i), 1, f"step {i} batch {i % 3} energy 2.5") for i in range(1, 9)],
            written=[],
            temporary=[],
            steps=[],
            records=[],
            hits=[],
            digests=[],
            baseline={},
        )

    @pytest.mark.parametrize(
        ("files", "values", "step", "told"),
        [
            (("final.npy", "nomatch*"), {}, "", "--file nomatch*"),
            ((), {"loss": "loss (.)"}, "", "--value loss=loss (.)"),
            ((), {}, r"it (\d+)", r"--step-pattern it (\d+)"),
            ((), {}, r"batch (\d+)", "begin anew"),
            (("*.npy",), {"energy": "energy ([0-9.]+)"}, r"step (\d+)", ""),
        ],
    )
    def test_is_told(self, shown: Shown, files: tuple[str, ...], values: dict[str, str], step: str, told: str) -> None:
        said = asked_in_vain(shown, files, values, step, is_with_library=False)
        assert told in said
        assert bool(told) == bool(said)

    @pytest.mark.parametrize(
        ("names", "told"),
        [([("energy", "")], ""), ([("energy", ""), ("enrgy", "")], "--statistical enrgy"), ([("energy", "sd")], "sd")],
    )
    def test_is_told_of_estimates(self, names: list[tuple[str, str]], told: str) -> None:
        said = estimates_in_vain({1: {"energy": "2.5"}, 2: {"energy": "2.25"}}, names)
        assert told in said
        assert bool(told) == bool(said)

    @pytest.mark.slow
    def test_makes_the_answer_unknown_however_equal_the_rest_is(self, tmp_path: Path) -> None:
        answer = proof(tmp_path / "work", 'print("step", s, "x", x, flush=True)', "", "--file=nomatch*")
        assert (answer["answer"], answer["reason"]) == ("unknown", "no final file matches --file nomatch*")

    @pytest.mark.parametrize("option", ["--rtol=inf", "--rtol=nan", "--atol=inf", "--bound=nan", "--bound=inf"])
    def test_a_tolerance_that_allows_everything_is_a_wrong_call(
        self, option: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["prove", option, "--", "true"]) == 2
        assert option.partition("=")[0] in capsys.readouterr().err


class TestStepsThatNobodyDid:
    """A run that goes on after a step that it never came to: equal numbers at the steps that both have prove nothing."""

    def after(self, first_again: int) -> Resumed:
        lines = [Said(step * 0.1, 1, f"step {step}") for step in range(1, 26)]
        lines += [Said(5.0, 2, f"step {step}") for step in range(first_again, 41)]
        run = Shown(
            name="killed-1",
            place=Place(Path("/nowhere"), "killed-1"),
            way=Way.AGAIN,
            began=0.0,
            duration_s=10.0,
            exit_code=0,
            lines=lines,
            written=[Written(2.05, 2.0, 1, "ck.json", 10, 20, 21)],
            temporary=[],
            steps=[],
            records=[],
            hits=[HIT],
            digests={},
            baseline={},
        )
        profile = Profile(10.0, (), last_step=40, first_step=1)
        return resumed_after(run, HIT, Units(("ck.json",)), profile, r"step (\d+)")

    @pytest.mark.parametrize(
        ("first_again", "answer"),
        [(21, Answer.IDENTICAL), (26, Answer.IDENTICAL), (27, Answer.IDENTICAL), (28, Answer.UNKNOWN)],
    )
    def test_are_not_passed_over(self, first_again: int, answer: Answer) -> None:
        equal = Part("logged values", Comparison(kind="identical", compared=20))
        killed = Killed("killed-1", (HIT,), (self.after(first_again),), 0, 60.0, "", (equal,))
        assert judge([equal], [killed]).answer is answer


HIT = Hit(Kill(Phase.BETWEEN, 1, step=25), True, 2.5, 25, 1, "SIGKILL")


TAKES_SIGINT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background of a shell ignores it
from lastgood.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("between_s", [0.0, 0.004], ids=["once", "twice"])
def test_ctrl_c_ends_the_job_and_says_so_and_leaves_nothing(between_s: float, tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    (work / "loop.py").write_text(
        "import os, time\nopen(os.environ['PID_FILE'], 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", TAKES_SIGINT, "prove", "--", sys.executable, "loop.py"],
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary), "PID_FILE": str(tmp_path / "pid")},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < end and command.poll() is None
        time.sleep(0.01)
    command.send_signal(signal.SIGINT)
    time.sleep(between_s)
    if between_s:
        command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode in (130, -signal.SIGINT)
    assert between_s or "interrupted: nothing of the job runs" in said
    assert not is_alive(int((tmp_path / "pid").read_text()))
    assert not list(temporary.iterdir())


def test_two_undisturbed_runs_that_end_at_different_steps_are_said_to() -> None:
    shorter = Part("logged values", Comparison(kind="identical", compared=15), ends_at=15, should_end_at=20)
    equal = Part("logged values", Comparison(kind="identical", compared=20))
    resumed = Resumed(killed_at=15, step=10, newest_step=10, newest="ck.json")
    verdict = judge([shorter], [Killed("killed-1", (HIT,), (resumed,), 0, 60.0, "", (equal,))])
    assert verdict.answer is Answer.NOT_DETERMINISTIC
    assert "end at different steps" in verdict.reason
