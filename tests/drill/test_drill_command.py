"""The command line of a drill: what it refuses before anything is started, what it lists, and how it reads."""

import tempfile
from argparse import Namespace
from pathlib import Path

import pytest

from lastgood.cli.drill_command import _default, _mean_of_rate
from lastgood.cli.drill_text import text_of
from lastgood.cli.main import main
from lastgood.core.errors import StorageError, UsageError
from lastgood.drill import whole
from lastgood.drill.answer import DrillAnswer, DrilledBill, DrilledFault, DrilledOther, DrilledRun, DrilledTry
from lastgood.drill.fault import CAMPAIGNS, KNOWN
from lastgood.drill.journal import FileJournal
from lastgood.drill.schedule import DEFAULT
from lastgood.drill.whole import Request
from lastgood.trial.deferring import EndedError


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = main(["drill", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fault", "meteor"], "there is no fault 'meteor'"),
        (["--fault", "kill-rank,which=worst"], "which=worst is not first, last, random"),
        (["--fault", "kill-rank,how=hard"], "it has no option 'how'"),
        (["--fault", "exit,code=256"], "code=256 is not a whole number from 0 to 255"),
        (["--fault", "truncate,keep=100"], "keep=100"),
        (["--fault", "flip-bit,at=x"], "at=x"),
        (["--fault", "terminate,grace=0s"], "grace"),
        (["--fault", "node"], "it needs --node-down"),
        (["--again", "--fault", "kill-keeper"], "leave --again out"),
        (["--again", "--fault", "kill-launcher"], "leave --again out"),
        (["--again", "--fault", "zero"], "--checkpoints GLOB"),
        (["--again", "--grace", "5s"], "--grace means nothing"),
        (["--app", "nope"], "no application 'nope' is known"),
        (["--app", "gromacs", "--fault", "exit"], "a process before it"),
        (["--hang-timeout", "soon"], "not a duration"),
        (["--resume-arg", "--from {checkpoint}"], "--resume-arg without --checkpoints"),
        (["--step-pattern", "("], "no regular expression"),
        (["--step-pattern", "step"], "no group"),
        (["--random", "3"], "how often?"),
        (["--random", "3", "--rate", "often"], "--rate often"),
        (["--random", "3", "--mtti", "5s", "--shape", "0"], "--shape 0"),
        (["--mtti", "5s"], "go with --random"),
        (["--speed-up", "10"], "give it with --replay"),
        (["--nodes", "4"], "give it with --replay"),
        (["--speed-up", "0", "--replay", "history.json"], "--speed-up 0: give a number above 0"),
        (["--fault", "node", "--node-down", "off", "--node-up", "'on"], "No closing quotation"),
        (["--limit", "0s"], "--limit 0s"),
        (["--quick", "--bill"], "one of --quick and --bill"),
        (["--fault", "kill-at-every-operation@step=3"], "leave @step=3 out"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_starts(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *options, "--", "true")
    assert (code, out) == (2, ""), err
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_command_is_needed_and_has_to_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys)[0] == 2
    assert run(capsys, "--", "no-such-command")[0] == 127


def test_a_directory_that_is_kept_must_be_new(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    code, _, err = run(capsys, "--keep", str(tmp_path), "--", "true")
    assert (code, "is not empty" in err) == (2, True)
    assert (tmp_path / "mine").read_text() == "x"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where drills make their directories."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def drill_that_raises(error: BaseException, monkeypatch: pytest.MonkeyPatch, problem: str = "") -> None:
    def run_drill(request: Request, say: object) -> None:
        journal = FileJournal(request.root)
        journal.note("healed", number=1, problem=problem)
        journal.close()
        raise error

    monkeypatch.setattr(whole, "run_drill", run_drill)


def test_an_error_leaves_the_drills_directory_and_names_it(
    capsys: pytest.CaptureFixture[str], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drill_that_raises(StorageError("the disk is full"), monkeypatch)
    code, _, err = run(capsys, "--", "true")
    (left,) = temporary.iterdir()
    assert code == StorageError.exit_code
    assert (left / "drill.jsonl").exists()
    assert str(left) in err


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (EndedError(15), 143)])
def test_a_drill_that_is_told_to_end_removes_its_directory_only_if_all_is_undone(
    capsys: pytest.CaptureFixture[str],
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
) -> None:
    drill_that_raises(error, monkeypatch)
    assert run(capsys, "--", "true")[0] == code
    assert list(temporary.iterdir()) == []
    drill_that_raises(error, monkeypatch, problem="n7 is still down")
    told, _, err = run(capsys, "--", "true")
    (left,) = temporary.iterdir()
    assert (told, "n7 is still down" in err, str(left) in err) == (code, True, True)


@pytest.fixture
def linked(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user stands in a directory with a link to one of his others; as it is named."""
    (tmp_path / "user").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "user" / "out").symlink_to(tmp_path / "scratch")
    monkeypatch.chdir(tmp_path / "user")
    drill_that_raises(KeyboardInterrupt(), monkeypatch)
    return f"out -> {tmp_path / 'scratch'}"


@pytest.mark.parametrize("options", [[], ["--checkpoints", "out/*.pt"]])
def test_a_link_to_the_users_own_checkpoints_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], temporary: Path, linked: str, options: list[str]
) -> None:
    code, _, said = run(capsys, *options, "--", "true")
    assert (code, linked in said, "--leave-out out" in said, "--through-links" in said) == (2, True, True, True)
    assert list(temporary.iterdir()) == []


def test_links_that_are_meant_are_named_and_followed(capsys: pytest.CaptureFixture[str], linked: str) -> None:
    code, _, said = run(capsys, "--through-links", "--", "true")
    assert (code, f"changes your own files: {linked}" in said) == (130, True)


def test_an_application_whose_files_are_not_named_is_not_waited_for_in_a_save() -> None:
    def faults(**given: object) -> list[str]:
        usual = {"again": False, "app": None, "checkpoints": ""}
        return [spec.text for spec in _default(Namespace(**{**usual, **given}), list(DEFAULT))]

    assert faults() == faults(app="x", checkpoints="*.cpt") == [spec.text for spec in DEFAULT]
    assert faults(app="x") == ["kill-rank", "terminate", "flip-bit"]
    assert faults(again=True) == ["kill-rank", "terminate"]


def test_every_fault_is_listed_with_what_it_lacks_here(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--list")
    assert code == 0
    for name in (*KNOWN, *CAMPAIGNS):
        assert f"\n{name}" in out
    assert "cannot be caused here: it needs --node-down" in " ".join(out.split())
    assert "node          " in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_rates_are_turned_into_times() -> None:
    assert (_mean_of_rate("2/min"), _mean_of_rate("0.5/h"), _mean_of_rate("1/d")) == (30.0, 7200.0, 86400.0)
    for text in ("2", "/min", "2/week", "0/min", "-1/min", "inf/h", "nan/h"):
        with pytest.raises(UsageError, match="--rate"):
            _mean_of_rate(text)


def fault(number: int, **told: object) -> DrilledFault:
    usual: dict[str, object] = {
        "number": number, "fault": "kill-rank@step=100", "verdict": "pass", "reason": "went on after step 90",
        "remedy": "", "at": 1.0, "what": "SIGKILL to rank 0", "caught": "", "pids": [7], "paths": [], "has_effect": True,
        "reached_step": 100, "checkpoint_step": 90, "resumed_step": 90, "blur_steps": 0, "resumed_from": "memory",
        "lost_steps": 10, "lost_s": 1.0, "detected_s": 0.1, "ended_as": "killed", "restarted_s": 1.2, "first_step_s": 3.0,
        "caught_up_s": 4.0, "overtaken_by": None, "is_undone": True,
    }  # fmt: skip
    return DrilledFault(**(usual | told))  # type: ignore[arg-type]


def answer(*faults: DrilledFault, **told: object) -> DrillAnswer:
    calm = DrilledRun(10.0, 0, 1, 200, False, 1.0, [])
    usual: dict[str, object] = {
        "verdict": "pass", "reason": "it came through", "remedy": "", "command": ["x"], "way": "lastgood", "seed": 7,
        "directory": "", "undisturbed": calm, "disturbed": calm, "end": "it finished", "faults": list(faults), "tries": [],
        "bill": None,
    }  # fmt: skip
    return DrillAnswer(**(usual | told))  # type: ignore[arg-type]


def test_the_verdict_comes_first_and_each_fault_has_its_line() -> None:
    late = fault(2, verdict="unknown", reason="it was over", remedy="let it come earlier", what="", resumed_step=None)
    text = text_of(
        answer(fault(1), late, verdict="unknown", reason="fault 2: it was over", remedy="let it come earlier")
    )
    lines = text.splitlines()
    assert lines[0] == "UNKNOWN: fault 2: it was over"
    assert lines[1] == "what to do: let it come earlier"
    row = next(line for line in lines if line.startswith("1  pass"))
    assert row.split() == ["1", "pass", "100", "90", "memory", "10", "0.1", "s", "1.2", "s", "3", "s", "kill-rank"]
    assert "2. kill-rank@step=100. It was over" in lines
    assert max(map(len, lines)) <= 80


def test_a_step_that_is_only_about_right_is_marked() -> None:
    assert "~90 storage" in text_of(answer(fault(1, blur_steps=10, resumed_from="storage")))
    assert "from zero" in text_of(answer(fault(1, resumed_step=0, resumed_from="zero")))


def test_times_that_count_two_faults_say_so() -> None:
    assert "fault 2 came before the job had come through this one" in text_of(answer(fault(1, overtaken_by=2)))


def test_the_bill_names_what_had_not_finished() -> None:
    others = [DrilledOther("started again", 40.0, 50.0, 3, 2), DrilledOther("from nothing", None, 50.0, 9, 2)]
    bill = DrilledBill(
        [10.0], [10.2], 0.02, 0.01, 0.5, 0.55, 0.4, 1.0, 1.5, 4.0, 3.0, 10, 0.2, 20.0, others
    )  # fmt: skip
    text = " ".join(text_of(answer(fault(1), bill=bill)).split())
    assert "+2.0% without failures" in text
    assert "50% of that time was needed; predicted for so many failures: 55%" in text
    assert "requeue only 40 s under the same faults" in text
    assert "no checkpoint had not finished after 50 s under the same faults" in text


def test_of_many_tries_those_that_failed_are_shown() -> None:
    tries = [DrilledTry("before rename", "fail", "began from zero", 0, 50), DrilledTry("after", "pass", "fine", 40, 1)]
    text = text_of(answer(tries=tries))
    assert "2 tries: 1 pass, 1 fail" in text
    assert "fail: before rename: began from zero" in text
    assert "after: fine" not in text


def test_the_last_words_of_a_run_that_ended_badly_are_shown() -> None:
    bad = DrilledRun(10.0, 1, 1, 200, False, 1.0, ["Traceback", "ValueError: \x1b[31mred"])
    text = text_of(answer(fault(1), disturbed=bad))
    assert "  | ValueError: \\x1b[31mred" in text
