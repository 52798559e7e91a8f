"""The table of nine faults: its verdicts tell what happened, with ours and with a plain loop of torch.save."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    import nine_faults.verdict

    return nine_faults.verdict


@pytest.mark.parametrize(
    ("tries", "word"),
    [
        ([(0, 40, "same")], "OK@40"),
        ([(0, 30, "same")], "OK@30"),
        ([(1, None, None), (0, 40, "same")], "OK@40"),
        ([(0, 40, "inexact")], "same@40"),
        ([(0, 40, "other")], "DIVERGED@40"),
        # From zero the end is equal too: what was lost is the work.
        ([(0, 0, "same")], "ZERO"),
        ([(1, None, None), (1, None, None)], "HARD"),
        ([(80, None, None), (80, None, None)], "refused 80"),
        ([(80, None, None), (1, None, None)], "HARD"),
        ([(None, 40, None)], "HUNG"),
        ([(-9, 40, None), (None, None, None)], "HUNG"),
        ([(0, 40, None)], "unfinished"),
    ],
)
def test_a_verdict_follows_from_exit_codes_the_step_and_the_final_weights(
    verdict: ModuleType, tries: list[tuple[int | None, int | None, str | None]], word: str
) -> None:
    outcomes = [verdict.Outcome(code, resumed, 70, final) for code, resumed, final in tries]
    found = verdict.judge(outcomes, uninterrupted="same", clean_resume="inexact", had_saved=True, refusal=80)
    assert str(found) == word
    assert found.is_exact == word.startswith(("OK", "same"))


def test_a_new_job_that_starts_at_zero_is_right(verdict: ModuleType) -> None:
    outcome = verdict.Outcome(0, 0, 70, "same")
    found = verdict.judge([outcome], uninterrupted="same", clean_resume=None, had_saved=False, refusal=80)
    assert str(found) == "OK@0"


def test_verdicts_are_counted_the_most_frequent_first(verdict: ModuleType) -> None:
    assert verdict.tally(["OK@50", "OK@40", "OK@40"]) == "OK@40 2/3, OK@50 1/3"
    assert verdict.tally(["HARD"]) == "HARD"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "sklearn")), reason="needs torch and scikit-learn"
)
def test_ours_is_right_where_a_plain_loop_is_stuck_silently_wrong_or_back_at_zero(tmp_path: Path) -> None:
    output = tmp_path / "faults.json"
    command = [sys.executable, str(BENCH / "faults.py"), "--quick", "--output", str(output)]
    done = subprocess.run(
        [*command, "--systems", "lastgood,torch-in-place", "--faults", "F3,F4,F6"],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    table = json.loads(output.read_text())["table"]
    assert {fault: {name: cell["text"] for name, cell in row.items()} for fault, row in table.items()} == {
        "F3": {"lastgood": "OK@30", "torch-in-place": "HARD"},
        "F4": {"lastgood": "detected, OK@30", "torch-in-place": "undetected, DIVERGED"},
        "F6": {"lastgood": "refused 80, refused 80; back: OK@40", "torch-in-place": "ZERO, ZERO; back: OK@40"},
    }
    assert "| **F3** newest truncated to half | OK@30 | HARD |" in done.stdout
    assert list(tmp_path.iterdir()) == [output], "the benchmark left something behind"
