"""Steps and values in what programs print."""

import pytest

from lastgood.core.errors import UsageError
from lastgood.prove.output_lines import (
    Finders,
    attempts_of,
    check_patterns,
    guess_inner_pattern,
    guess_step_pattern,
    merged,
    series_of_attempts,
    steps_in,
)


@pytest.mark.parametrize(
    "line",
    [
        "step {}: loss 0.5",
        "Step: {} | loss=0.5",
        "iter {} loss 0.5",
        "{{'step': {}, 'loss': 0.5}}",
        "Iteration #{}, 0.5 s",
    ],
)
def test_the_usual_ways_to_print_a_step_are_guessed(line: str):
    pattern = guess_step_pattern([line.format(i) for i in range(1, 9)])
    series = series_of_attempts([[line.format(7)]], Finders(pattern, {"x": r"(0\.5)"}))
    assert series == [(1, {7: {"x": "0.5"}})]


def test_steps_come_before_epochs():
    lines = [f"epoch {i // 4} step {i} loss 1" for i in range(12)]
    assert "step" in guess_step_pattern(lines)


@pytest.mark.parametrize("epochs", [2, 5])
def test_steps_that_begin_anew_in_each_epoch_are_not_taken_for_progress(epochs: int):
    lines = [f"Epoch {e}, step {i}/10, loss 1" for e in range(1, epochs + 1) for i in range(1, 11)]
    assert "step" in guess_inner_pattern(lines)
    pattern = guess_step_pattern(lines)
    # Of two epochs alone it is not said that they rise.
    assert ("epoch" in pattern) if epochs > 2 else (pattern == "")


@pytest.mark.parametrize(
    "steps",
    [
        [1, 2, 1, 2, 3, 4, 3, 4, 5],
        [*range(1, 11), 1],
        [5, 6, 7, 8, 6, 9],
        [0, *range(10, 60, 10)],
        [100, *range(1, 101)],
        [*range(1, 11), 1, 10],
        [*range(1, 31), 1, *range(31, 41), 1, *range(41, 51), 1],
        [*range(1, 101), *range(1, 21)],
    ],
)
def test_ranks_headers_summaries_and_a_short_pass_at_the_end_are_no_new_beginning(steps: list[int]):
    lines = [f"step {step}" for step in steps]
    assert "step" in guess_step_pattern(lines)
    assert guess_inner_pattern(lines) == ""


@pytest.mark.parametrize("header", ["training up to step 100", "runs until iteration 100"])
def test_a_header_that_names_the_last_step_does_not_tell_that_it_is_done(header: str):
    lines = [header, *(f"{header.split()[-2]} {i} loss 1" for i in range(1, 101))]
    pattern = guess_step_pattern(lines)
    assert steps_in(lines, pattern) == [*range(1, 101)]


def test_lines_without_rising_numbers_tell_no_step():
    assert guess_step_pattern(["step 3", "step 2", "step 1", "step 0"]) == ""


def test_numbers_beside_a_step_are_values_unless_they_tell_of_time():
    finders = Finders(guess_step_pattern([f"step {i}" for i in range(5)]), {}, is_values_guessed=True)
    text = "step 3 | loss: 0.25 | lr 1e-3 | 12.5 it/s | time 0.3 | elapsed=4 | grad_norm=nan | acc/top1 0.5"
    ((_, series),) = series_of_attempts([[text]], finders)
    assert series == {3: {"loss": "0.25", "lr": "1e-3", "grad_norm": "nan", "acc/top1": "0.5"}}


def test_what_a_later_attempt_says_of_a_step_counts():
    parts = [["step 1 a 1", "step 2 a 2", "step 3 a 9"], ["resuming at step 3", "step 3 a 3", "step 4 a 4"]]
    finders = Finders(r"step (\d+)", {"a": r" a (\d+)"})
    assert merged(series_of_attempts(parts, finders)) == {
        1: {"a": "1"},
        2: {"a": "2"},
        3: {"a": "3"},
        4: {"a": "4"},
    }


def test_a_step_that_is_only_named_takes_nothing_back():
    parts = [["step 1 a 1", "step 2 a 2"], ["resuming from step 2", "step 3 a 3"]]
    assert sorted(merged(series_of_attempts(parts, Finders(r"step (\d+)", {"a": r" a (\d+)"})))) == [1, 2, 3]


def test_output_is_parted_by_starts_and_by_our_launchers_attempts():
    lines = [
        (1, "lastgood: attempt 1 of /j resumed"),
        (1, "step 1"),
        (1, "lastgood: attempt 1 of /j ended; last good: step 9"),
        (1, "lastgood: attempt 2 of /j resumed from step 9"),
        (1, "step 2"),
        (2, "step 3"),
    ]
    assert attempts_of(lines) == [["step 1"], ["step 2"], ["step 3"]]


@pytest.mark.parametrize(("pattern", "told"), [("loss", "no group"), ("loss (", "regular expression")])
def test_a_pattern_that_cannot_find_anything_is_refused(pattern: str, told: str):
    with pytest.raises(UsageError, match=told):
        check_patterns({"loss": pattern})
