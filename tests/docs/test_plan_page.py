"""The page on planning shows what is printed, and its tables are the code's."""

import re
import shlex
from pathlib import Path

import pytest

from lastgood.cli.main import main
from lastgood.core.interval import efficiency, ettr, exact_interval_s
from lastgood.core.units import duration, parse_duration
from lastgood.plan.quantities import RECIPES
from lastgood.plan.simulate import Walk, simulate
from lastgood.plan.situation import PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "plan.md").read_text(encoding="utf-8")


def test_the_answer_in_the_page_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    block = PAGE[PAGE.index("```console\n") :].split("```")[1].removeprefix("console\n")
    command, _, answer = block.partition("\n")
    assert main(shlex.split(command.removeprefix("$ lastgood "))) == 0
    assert capsys.readouterr().out == answer


def test_the_recipes_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)`[^|]*\| (\d+: .+) \|$", PAGE, re.MULTILINE))
    assert rows == {name: f"{recipe.bytes_each}: {recipe.what}" for name, recipe in RECIPES.items()}


def test_the_presets_are_those_of_the_code() -> None:
    for name, preset in PRESETS.items():
        assert f"`{name}` {preset.per_1000_node_days:.2f}" in PAGE


@pytest.mark.slow
def test_the_page_on_intervals_shows_what_is_simulated() -> None:
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "interval.md").read_text(encoding="utf-8")
    table = text[text.index("| stall | write | MTTI |") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert len(rows) == 6
    detection_s = 60.0
    for stall, write, mtti, restart, shape, interval, exact, first, simulated in rows:
        c, w, m, r = (parse_duration(text) for text in (stall, write, mtti, restart))
        best_s = exact_interval_s(c, m)
        kept = efficiency(best_s, c, m, lag_s=w - c, detection_s=detection_s, restart_s=r)
        walk = Walk(
            interval_s=best_s,
            stall_s=c,
            lag_s=w - c,
            mtti_s=m,
            down_s=detection_s,
            restart_s=r,
            shape=float(shape),
        )
        found = simulate(walk)
        assert interval == duration(best_s)
        assert exact == f"{100 * (1 - kept):.1f} %"
        assert first == f"{100 * (1 - ettr(best_s, c, detection_s + r, m)):.1f} %"
        assert simulated == f"{100 * (1 - found.efficiency):.1f} ± {100 * found.efficiency_error:.1f} %"


def test_every_option_that_the_page_names_exists() -> None:
    from lastgood.cli.main import build_parser

    parser = next(action.choices["plan"] for action in build_parser("plan")._actions if action.dest == "command")
    known = {option for action in parser._actions for option in action.option_strings}
    foreign = {
        "--grace",
        "--requeue",
        "--no-requeue",
        "--open-mode",
        "--segments",
        "--signal",
        "--plan",
        "--nodes",
        "--sacct",
    }
    assert set(re.findall(r"(--[a-z][a-z-]+)", PAGE)) <= known | foreign
