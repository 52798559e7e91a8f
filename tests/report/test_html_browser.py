"""The page in a real browser: no complaint, no request, all there on a phone and on paper, readable in both schemes."""

import itertools
import os
import re
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lastgood.cli.main import main
from lastgood.report.html import page_of
from lastgood.report.model import FleetReport, Problem
from lastgood.report.style import DARK, LIGHT
from lastgood.trial.place import make_place
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Trial
from report.browser import Browser
from report.example import example_fleet, example_report
from report.made_reports import fleet_of, made_report

pytestmark = pytest.mark.slow

LONG = "a/path/that/has/no/place/to/break/" + "x" * 300


def _with_long_words() -> FleetReport:
    """What stretches a page: long names without a space in every place where a journal's text stands."""
    report = made_report(f"/scratch/{LONG}", reason=LONG, command=LONG, problems=[Problem(where=LONG, what=LONG)])
    return fleet_of(msgspec.structs.replace(report, state="given up", why=LONG, notes=[LONG]))


FLEETS = {
    "one job": lambda: fleet_of(example_report()),
    "fleet": example_fleet,
    "many attempts": lambda: fleet_of(made_report(killed_after=[70 + i * 37 % 100 for i in range(300)], ranks=300)),
    "short": lambda: fleet_of(made_report(killed_after=(), last_steps=3, begin=1_790_000_000.7)),
    "long words": _with_long_words,
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("pages")
    made = {}
    for name, make in FLEETS.items():
        made[name] = place / f"{name}.html"
        made[name].write_text(page_of(make()), encoding="utf-8")
    made["without plots"] = place / "plain.html"
    made["without plots"].write_text(page_of(example_fleet(), has_plots=False), encoding="utf-8")
    return made


ALL = pytest.mark.parametrize("name", [*FLEETS, "without plots"])

TEXT = "(one => [...document.querySelectorAll(one)].map(e => e.textContent))"

SHOWN = "e => e.checkVisibility() && e.getBoundingClientRect().width > 0"

OUTSIDE = f"""(() => [...document.querySelectorAll('body *')].filter(e => ({SHOWN})(e)
  && !e.closest('.scroll table') && !e.closest('.skip') && !e.closest('svg *')
  && (e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5))
  .map(e => e.outerHTML.slice(0, 120)))()"""

COLLISIONS = """(() => { const found = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([name, a], i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        found.push(name + ' sticks out');
      for (const [other, b] of texts.slice(i + 1))
        if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom)
          found.push(name + ' on ' + other);
    });
  }
  return found; })()"""


@ALL
def test_it_asks_for_nothing_and_nothing_is_complained_of(browser, pages, name):
    browser.look_as()
    browser.open(pages[name])
    assert browser.requests == []
    assert browser.complaints == []
    assert browser.ask("document.compatMode") == "CSS1Compat"


def test_the_policy_of_the_page_stops_what_would_run_or_load(browser, tmp_path):
    """If escaping ever failed. This also shows that requests and complaints are seen where there are some."""
    text = page_of(fleet_of(made_report()), has_plots=False)
    bad = "<script>document.title = 'ran'</script><img src='http://127.0.0.1:9/x.png'><p onclick='1'>"
    file = tmp_path / "bad.html"
    file.write_text(text.replace("<footer>", bad + "<footer>"), encoding="utf-8")
    browser.look_as()
    browser.open(file)
    assert "ran" not in browser.ask("document.title")
    assert any("Content Security Policy" in one for one in browser.complaints)
    file.write_text(re.sub("<meta http-equiv[^>]*>", "", text).replace("<footer>", bad + "<footer>"), encoding="utf-8")
    browser.open(file)
    assert browser.ask("document.title") == "ran"
    assert browser.requests == ["http://127.0.0.1:9/x.png"]


def test_the_page_shows_what_the_report_says(browser, pages):
    report = example_report()
    browser.look_as()
    browser.open(pages["one job"])
    shown = dict(browser.ask("[...document.querySelectorAll('data')].map(e => [e.dataset.is, e.value])"))
    assert float(shown["lost-steps"]) == report.lost_steps
    assert float(shown["attempts"]) == len(report.attempts)
    assert browser.ask("document.querySelector('h1').textContent") == "example-1 finished"
    rows = browser.ask(
        "[...document.querySelectorAll('[data-of=attempts] tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row[3] for row in rows] == ["480\n4 min 0 s", "–", "390\n7 min 21 s", "?", "–"]
    assert rows[2][4].startswith("hang: rank 1 has stood still")
    assert browser.ask(f"{TEXT}('[data-of=checkpoints] tbody th')") == [f"{one.step:,}" for one in report.checkpoints]


def test_what_lies_behind_the_first_screen_is_said_on_it(browser, pages):
    """Is it done, what was lost, ETTR, is there anything to do: on a phone, without scrolling."""
    browser.look_as(360, 740)
    browser.open(pages["one job"])
    for what in (".verdict", ".todo", ".cards div:nth-child(2)"):
        assert browser.ask(f"document.querySelector('{what}').getBoundingClientRect().bottom") <= 740, what


@ALL
def test_on_a_phone_nothing_is_cut_off(browser, pages, name):
    browser.look_as(360, 740)
    browser.open(pages[name])
    assert browser.ask("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    assert browser.ask(OUTSIDE) == []


@ALL
@pytest.mark.parametrize("width", [360, 699, 701, 1280])
def test_no_label_lies_on_another(browser, pages, name, width):
    browser.look_as(width, 900)
    browser.open(pages[name])
    assert browser.ask(COLLISIONS) == []
    charts = browser.ask(f"[...document.querySelectorAll('svg.chart')].filter({SHOWN}).length")
    assert charts == browser.ask("document.querySelectorAll('svg.chart').length / 2"), "one form of each is shown"


@pytest.mark.parametrize("name", ["one job", "many attempts"])
@pytest.mark.parametrize("width", [360, 1280])
def test_labels_of_plots_are_large_enough(browser, pages, name, width):
    browser.look_as(width, 900)
    browser.open(pages[name])
    sizes = browser.ask(f"""[...document.querySelectorAll('svg.chart')].filter({SHOWN}).flatMap(svg => {{
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      return [...svg.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize) * scale); }})""")
    assert sizes and min(sizes) >= 10


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
INK = "getComputedStyle(document.querySelector('h1')).color"
CURVE = "getComputedStyle([...document.querySelectorAll('svg.chart path')].find(e => e.style.stroke === 'var(--lost)')).stroke"


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


@pytest.mark.parametrize(("scheme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_it_follows_the_scheme_of_the_system_and_the_reader_s_choice(browser, pages, scheme, colours):
    other = "dark" if scheme == "light" else "light"
    browser.look_as(scheme=scheme)
    browser.open(pages["one job"])
    assert browser.ask(BACKGROUND) == rgb(colours["paper"])
    assert browser.ask(INK) == rgb(colours["ink"])
    assert browser.ask(CURVE) == rgb(colours["lost"]), "plots follow, too"
    browser.look_as(scheme=other)
    assert browser.ask(BACKGROUND) != rgb(colours["paper"])
    browser.ask(f"document.querySelector('#scheme-{scheme}').click()")
    assert browser.ask(BACKGROUND) == rgb(colours["paper"])
    assert browser.ask(CURVE) == rgb(colours["lost"])


def test_paper_is_white_whatever_was_chosen(browser, pages):
    browser.look_as(scheme="dark", media="print")
    browser.open(pages["one job"])
    browser.ask("document.querySelector('#scheme-dark').click()")
    assert browser.ask(BACKGROUND) == rgb(LIGHT["paper"])
    browser.look_as()


@pytest.mark.parametrize("name", ["one job", "fleet", "many attempts", "without plots"])
def test_paper_has_all_that_the_screen_has(browser, pages, name):
    """Nothing stays in a box that scrolls: each table is as high and as wide as its content."""
    browser.look_as(703, 1000, media="print")
    browser.open(pages[name])
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 3 || e.scrollWidth > e.clientWidth + 3).map(e => e.textContent.slice(0, 60))"
    assert browser.ask(cut) == []
    assert browser.ask(OUTSIDE.replace("!e.closest('.scroll table')", "true")) == []
    pdf = browser.print_to_pdf()
    browser.look_as()
    assert pdf.startswith(b"%PDF-")
    assert pages_in(pdf) >= 2


def pages_in(pdf: bytes) -> int:
    found = len(re.findall(rb"/Type\s*/Page\b", pdf))
    for packed in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            found += len(re.findall(rb"/Type\s*/Page\b", zlib.decompressobj().decompress(packed)))
        except zlib.error:
            continue
    return found


def test_who_cannot_see_it_is_told(browser, pages):
    browser.look_as()
    browser.open(pages["fleet"])
    unnamed = """[...document.querySelectorAll('svg')].filter(e => e.getAttribute('role') !== 'img'
      || !(e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby')))).length"""
    assert browser.ask(unnamed) == 0
    assert browser.ask(
        "[...document.querySelectorAll('svg.chart')].every(e => document.getElementById(e.getAttribute('aria-describedby')))"
    )
    assert browser.ask(
        "[...document.querySelectorAll('table')].every(t => t.caption && t.querySelector('thead th[scope=col]'))"
    )
    ids = browser.ask("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert browser.ask("[...document.querySelectorAll('.scroll')].every(e => e.tabIndex === 0)")
    levels = browser.ask("[...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_links_of_the_fleet_lead_to_the_jobs(browser, pages):
    browser.look_as()
    browser.open(pages["fleet"])
    assert browser.ask("[...document.querySelectorAll('main a')].every(a => document.getElementById(a.hash.slice(1)))")


LOOP = """
import time
import numpy as np
import lastgood
values = np.zeros(1000)
run = lastgood.Run({"values": values}, every=10)
for step in run.steps(400):
    values += 1
    time.sleep(0.02)
"""


def test_the_page_of_a_job_that_was_really_killed_shows_its_journal(browser, tmp_path):
    """Two kills; then what `--format json` says is held against what the browser shows."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "loop.py").write_text(LOOP)
    target = Target(command=(sys.executable, "loop.py"), directory=tmp_path / "work", limit_s=120)
    with Trial(target, make_place(tmp_path / "trials", "killed", target), Way.LASTGOOD) as trial:
        trial.start()
        for step in (23, 67):
            assert trial.wait_until(lambda sight, step=step: (sight.step or 0) >= step and bool(trial.ranks()), 60)
            os.kill(trial.ranks()[0].pid, signal.SIGKILL)
        trial.finish(120)
        job = trial.place.job
        for name, output in (("json", "report.json"), ("html", "report.html")):
            assert main(["report", str(job), "--format", name, "--output", str(tmp_path / output)]) == 0
    (report,) = msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=FleetReport).jobs
    assert len(report.attempts) == 3 and report.reached_step == 400
    browser.look_as()
    browser.open(tmp_path / "report.html")
    assert (browser.requests, browser.complaints, browser.ask(COLLISIONS)) == ([], [], [])
    shown = dict(browser.ask("[...document.querySelectorAll('data')].map(e => [e.dataset.is, e.value])"))
    assert int(shown["attempts"]) == 3 and int(shown["faults"]) == 2
    assert int(shown["saves"]) == len(report.saves)
    assert float(shown["lost-s"]) == report.lost_s
    assert float(shown["ettr"]) == report.ettr.share
    lost = browser.ask(f"{TEXT}('[data-is=attempt-lost-steps]')")
    assert lost == [f"{line.lost_steps}" if line.lost_steps else "–" for line in report.attempts]
    assert browser.ask("[...document.querySelectorAll('[data-of=checkpoints] tbody th data')].map(e => +e.value)") == [
        one.step for one in report.checkpoints
    ]
    assert browser.ask("document.querySelectorAll('svg.chart.wide').length") >= 2
