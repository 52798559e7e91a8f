"""The first screen is true: its transcript is what the demo prints, and its links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.transcripts import matches, normalised

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_transcript_is_what_the_demo_prints() -> None:
    shown = re.search(r"```console\n\$ make demo\n(.*?)```", README, re.DOTALL)
    assert shown
    done = subprocess.run(
        # On a busy machine two seconds may be too few. Numbers are not compared.
        [sys.executable, "demo/demo.py", "--grace", "100"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    output = re.sub(r"/tmp/lastgood-demo-\w+", "/tmp/demo", done.stdout)
    want, got = ([normalised(line) for line in text.splitlines()] for text in (shown[1], output))
    assert matches([line for line in want if line], [line for line in got if line]), done.stdout


PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}
            assert heading in slugs, f"{page.name} links to {target}"
