"""The page on comparing names what the code knows."""

import re
from pathlib import Path

from lastgood.prove.files import KINDS
from lastgood.prove.statistics import BOUND, false_alarm_of

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "comparing.md").read_text()


def test_every_kind_of_file_is_in_the_table() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(KINDS)


def test_the_false_alarms_are_those_of_the_code() -> None:
    assert f"`--bound`, {BOUND:.0f} by default" in PAGE
    assert f"once in {1 / false_alarm_of(BOUND):.0f} times" in PAGE
