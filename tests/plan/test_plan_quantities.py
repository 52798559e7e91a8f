"""Sizes, speeds and rates: what people write, and what is refused because its unit would be a guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.plan.quantities import RECIPES, parse_bytes, parse_count, parse_failures, parse_per_day, parse_speed


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("14x7e9", 98e9),
        ("14 x 7e9", 98e9),
        ("98GB", 98e9),
        ("1.5 TB", 1.5e12),
        ("1GiB", 2**30),
        ("98e9", 98e9),
        ("512", 512),
        ("7kB", 7000),
    ],
)
def test_sizes(text: str, count: float) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "x", "14x", "-5GB", "0", "98 gigs", "1e40", "nan", "98Gb/s", "7e9x", "14x7e9x2", "5iB"]
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match="bytes"):
        parse_bytes(text)


def test_a_speed_needs_its_units() -> None:
    assert parse_speed("2GB/s") == 2e9
    for text in ("2", "2GB", "2/s", "GB/s", "2GB/h", "-1GB/s"):
        with pytest.raises(UsageError):
            parse_speed(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("6.5/1000nd", 6.5),
        ("6.5 per 1000 node-days", 6.5),
        ("0.0065/nd", 6.5),
        ("1/1000 node-hours", 24),
        ("13/2000nd", 6.5),
    ],
)
def test_failure_rates(text: str, rate: float) -> None:
    assert parse_failures(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["6.5", "6.5/1000", "6.5/day", "-6.5/1000nd", "0/1000nd", "1e9/nd", "6.5/0nd", ""])
def test_no_failure_rates(text: str) -> None:
    with pytest.raises(UsageError):
        parse_failures(text)


def test_frequencies() -> None:
    assert (parse_per_day("1/day"), parse_per_day("14/week"), parse_per_day("0/day")) == (1, 2, 0)
    for text in ("1", "1/hour", "-1/day", "1e9/day", "often"):
        with pytest.raises(UsageError):
            parse_per_day(text)


def test_parameters() -> None:
    assert (parse_count("7e9", "-p"), parse_count("7B", "-p"), parse_count("350M", "-p")) == (7e9, 7e9, 350e6)
    for text in ("0", "-7e9", "7 billion", "7e99", ""):
        with pytest.raises(UsageError, match="-p"):
            parse_count(text, "-p")


def test_the_recipes_say_what_they_count() -> None:
    """The sum of the bytes that the text names is the figure; adam-mixed is the 14 of the issue."""
    import re

    assert RECIPES["adam-mixed"].bytes_each == 14
    for name, recipe in RECIPES.items():
        counted = sum(int(n) for n in re.findall(r"(?<![\w])(\d+)(?= |$|,)", recipe.what.split(";")[0]))
        assert counted in (recipe.bytes_each, 0), name


@given(st.text(max_size=20))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    for parse in (parse_bytes, parse_speed, parse_failures, parse_per_day):
        try:
            assert 0 <= parse(text) < 1e19
        except UsageError as error:
            assert repr(text) in str(error) or text.strip() in str(error)
