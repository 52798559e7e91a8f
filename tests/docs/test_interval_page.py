"""The page on intervals tells the truth: its tables are recomputed, its line is what a job prints."""

import re
from pathlib import Path

import pytest

from lastgood.core.interval import efficiency, exact_interval_s
from lastgood.core.interval_choice import SaveCost
from lastgood.core.pace import NOTHING_SAID, Pace, pace_news
from lastgood.core.reliability import DAY_S, NODE_FAILURES_PER_1000_NODE_DAYS, preset_mtti
from lastgood.core.schedule import Auto
from lastgood.core.units import duration

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "interval.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """The rows below a heading row, as cells."""
    rows = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


EXAMPLES = table("| stall |")
ASSUMED = table("| assumed |")


def test_the_tables_are_there():
    assert (len(EXAMPLES), len(ASSUMED)) == (8, 4)


@pytest.mark.parametrize(("stall", "write", "nodes", "interval", "bound", "lost"), EXAMPLES)
def test_an_example(stall, write, nodes, interval, bound, lost):
    cost = SaveCost(float(stall.removesuffix(" s")), float(write.removesuffix(" s")))
    choice = Pace(Auto(), preset_mtti(int(nodes))).after_save(cost).choice
    assert (duration(choice.interval_s), choice.bound.value) == (interval, bound)
    assert f"{100 * (1 - choice.efficiency):.2f} %" == lost


@pytest.mark.parametrize(("assumed", "true", "lost"), ASSUMED)
def test_the_cost_of_a_wrong_assumption(assumed, true, lost):
    assumed_s, true_s = (float(text.removesuffix(" d")) * DAY_S for text in (assumed, true))
    reached = efficiency(exact_interval_s(1.0, assumed_s), 1.0, true_s)
    assert 100 * (1 - reached) == pytest.approx(float(lost.removesuffix(" %")), abs=0.0051)


def test_the_line_is_what_a_job_prints():
    pace = Pace(Auto()).after_save(SaveCost(1.0, 1.0))
    text, _ = pace_news(pace, pace.margin_s(0.0), has_time_limit=False, said=NOTHING_SAID)
    assert f"lastgood: {text}\n" in PAGE


def test_the_preset_is_that_of_the_code():
    assert f"**{NODE_FAILURES_PER_1000_NODE_DAYS:.2f} failures per 1,000 node-days**" in PAGE
    on = re.search(r"The rates add: (.+) on 1 node, (.+) on 100, (.+) on 2,048\.", PAGE.replace("\n", " "))
    assert [duration(preset_mtti(nodes).seconds) for nodes in (1, 100, 2048)] == list(on.groups())
