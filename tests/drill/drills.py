"""Drills of small programs as a user runs them: in a process of its own, in a directory with a copy of the program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from lastgood.core.events import Event
from lastgood.core.layout import Env
from lastgood.drill.answer import DrillAnswer, DrilledFault
from lastgood.drill.journal import read_journal

HERE = Path(__file__).parent
LIMIT_S = 240


class Drill(NamedTuple):
    code: int
    answer: DrillAnswer
    said: str
    journal: list[Event]

    def fault(self, name: str) -> DrilledFault:
        return next(fault for fault in self.answer.faults if fault.fault.startswith(name))


def words(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lastgood", "drill", *map(str, arguments)]


def directory_with(program: Path, tmp_path: Path) -> Path:
    work = tmp_path / "user"
    work.mkdir(exist_ok=True)
    for path in (program, HERE / "waiting.py"):
        shutil.copy(path, work)
    return work


def start(program: Path, tmp_path: Path, *arguments: object) -> "subprocess.Popen[str]":
    """A drill that keeps its directory as tmp_path/drill."""
    return subprocess.Popen(
        words("--keep", tmp_path / "drill", *arguments),
        cwd=directory_with(program, tmp_path),
        env={name: value for name, value in os.environ.items() if name != Env.TRIAL},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def drill(program: Path, tmp_path: Path, *arguments: object) -> Drill:
    with start(program, tmp_path, "--json", *arguments) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert "Traceback" not in err, err
    assert out, err
    answer = msgspec.json.decode(out, type=DrillAnswer, strict=True)
    return Drill(process.returncode, answer, err, read_journal(tmp_path / "drill" / "drill.jsonl"))
