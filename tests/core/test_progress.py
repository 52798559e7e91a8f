"""The progress line: what it tells, and that it always fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.progress import progress_line


def test_a_wide_line_tells_everything() -> None:
    assert (
        progress_line(250, 1000, 2.0, 200, 25.0, 200)
        == "step 250/1000  [#####...............]  25%  2 steps/s  6 min 15 s left  last good 200, 25 s ago"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert progress_line(7, None, None, None, None, 80) == "step 7  nothing saved yet"


@pytest.mark.parametrize(
    ("rate", "text"),
    [(4321.4, "4321 steps/s"), (12.345, "12.3 steps/s"), (0.5, "2 s/step"), (1 / 200, "3 min 20 s/step")],
)
def test_slow_steps_are_told_in_time_per_step(rate: float, text: str) -> None:
    assert text in progress_line(1, None, rate, None, None, 80)


def test_the_last_good_outlives_bar_rate_share_and_time_left() -> None:
    line = progress_line(250, 1000, 2.0, 200, 25.0, 40)
    assert line == "step 250/1000  last good 200, 25 s ago"


def test_a_step_beyond_the_total_is_all_done() -> None:
    line = progress_line(12, 10, 1.0, 12, 0.0, 200)
    assert "100%" in line
    assert "left" not in line


@given(
    st.integers(0, 10**12),
    st.none() | st.integers(-1, 10**12),
    st.none() | st.floats(0, 1e9),
    st.none() | st.integers(0, 10**12),
    st.none() | st.floats(-1e6, 1e9),
    st.integers(-5, 200),
)
def test_it_never_exceeds_the_width(
    step: int, total: int | None, rate: float | None, good: int | None, age: float | None, width: int
) -> None:
    line = progress_line(step, total, rate, good, age, width)
    assert len(line) <= max(width, 0)
    assert "\n" not in line
