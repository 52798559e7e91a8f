"""Durations and sizes are read with their unit and printed with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.core.units import byte_size, duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10min", 600),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("2d", 172800),
        ("250ms", 0.25),
        (" 5 SEC ", 5),
        ("0s", 0),
        ("05:30", 330),
        ("1:00:00", 3600),
        ("2-12:00:00", 216000),
        ("1-00:30", 88200),
    ],
)
def test_as_people_and_slurm_write_them(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "10", "ten minutes", "5 parsecs", "-5s", "1h-", "5s,", "nan s", "1:2:3", "s", "1e3s"]
)
def test_what_is_no_duration_is_refused_by_name(text):
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.001, "0.001 s"),
        (9.99, "10 s"),
        (60, "60 s"),
        (120, "2 min 0 s"),
        (3599, "59 min 59 s"),
        (7200, "2 h 0 min"),
        (172800, "2 d 0 h"),
        (-30, "-30 s"),
    ],
)
def test_printed_with_two_units_at_most(seconds, text):
    assert duration(seconds) == text


@given(st.floats(-1e12, 1e12))
def test_a_duration_is_short(seconds):
    assert 0 < len(duration(seconds)) <= 16


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.23 MB"), (10**18, "1e+06 TB"), (2.5e12, "2.5 TB")],
)
def test_sizes_in_powers_of_1000(count, text):
    assert byte_size(count) == text


@pytest.mark.parametrize("seconds", [float("inf"), float("-inf"), float("nan")])
def test_a_duration_without_end_is_unknown(seconds):
    assert duration(seconds) == "unknown"


def test_less_than_a_millisecond_is_no_power_of_ten():
    assert duration(1e-5) == "<1 ms"
