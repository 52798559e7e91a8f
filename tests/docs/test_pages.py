"""Pages whose code is run and whose output is compared: what a reader sees is what happens.

In a page, ```python file=NAME``` is saved as a file, and each `$ command` of a ```console``` block is run in a shell,
in order, in an empty directory. Numbers are compared as "a number"; a line `...` stands for any lines.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from docs.transcripts import matches, normalised
from keeper.leftovers import keepers_of
from keeper.ranks import until

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    "tutorial/first-job.md",
    "how-to/wrap-a-command.md",
    "how-to/describe-an-application.md",
    "how-to/look-after-checkpoints.md",
    "how-to/pytorch.md",
    "how-to/standby.md",
    "how-to/frozen-parameters.md",
    "how-to/staging.md",
    "how-to/failure-history.md",
    "how-to/report.md",
    "how-to/prove.md",
    "how-to/audit.md",
]

_FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory with a path as short as a reader's own, because long ones are wrapped in tables."""
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture
def bin_directory(tmp_path: Path) -> Path:
    """With a `timeout` that needs no clock."""
    timeout = tmp_path / "bin" / "timeout"
    timeout.parent.mkdir()
    mortal = Path(__file__).with_name("mortal.py")
    timeout.write_text(
        f'#!/bin/sh\ntest "$1 $2 $3" = "--signal=KILL 4 python" && shift 3 && exec python {mortal} "$@"\n'
    )
    timeout.chmod(0o755)
    return timeout.parent


def settle(home: Path) -> None:
    """The keeper of a job that is finished deletes older checkpoints before it goes."""
    until(lambda: not any(is_of_finished_job(keeper) for keeper in keepers_of(home)))


def is_of_finished_job(keeper: psutil.Process) -> bool:
    try:
        words = keeper.cmdline()
    except psutil.NoSuchProcess:
        return False
    return any(Path(word, "finished.json").exists() for word in words if word.startswith("/tmp/"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_happens(page: str, home: Path, bin_directory: Path, tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LASTGOOD_")},
        "PATH": f"{bin_directory}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LASTGOOD_STATE_DIR": str(tmp_path / ".state"),
    }
    status = 0
    for language, file, body in _FENCE.findall((DOCS / page).read_text()):
        if file:
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(body)
        elif language == "console":
            for command, expected in steps_of(body):
                done = subprocess.run(
                    ["bash", "-c", f"(exit {status}); {command}"],
                    cwd=home,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=200,
                    check=False,
                )
                settle(home)
                status = done.returncode if done.returncode >= 0 else 128 - done.returncode
                want = [normalised(line.replace(str(home), "/home/you")) for line in expected]
                got = [normalised(line.replace(str(home), "/home/you")) for line in done.stdout.splitlines()]
                assert matches(want, got), (
                    f"$ {command}\n\nthe page says:\n" + "\n".join(want) + "\n\nit printed:\n" + "\n".join(got)
                )


def steps_of(body: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found
