"""How often a running job saves by itself: measured, stated or assumed, agreed between ranks, and said."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.core.errors import UsageError
from lastgood.core.layout import Env
from lastgood.core.reliability import Mtti, preset_mtti
from lastgood.runtime.environment import read_surroundings

PROGRAM = """
import time
from pathlib import Path
import numpy as np
import lastgood

x = np.zeros(100)
run = lastgood.Run({"x": x}, job="job", EVERY)
for step in run.steps(100_000):
    x += 1
    time.sleep(0.01)
    journal = max(Path("job/attempts").glob("*.events.jsonl"))
    if step % 10 == 0 and journal.read_text().count('"committed"') >= 3:
        run.finish()
        break
"""

RANKS = """
import time
import torch.distributed as dist
import torch
import lastgood

dist.init_process_group("gloo")
x = torch.zeros(100) + dist.get_rank()
run = lastgood.Run({"x": x}, job="job", EVERY)
for step in run.steps(150):
    x += 1
    # One rank is slower, and has another idea of how much time has passed.
    time.sleep(0.01 + 0.02 * dist.get_rank())
"""

Events = list[dict[str, Any]]
Start = Callable[..., tuple[str, Events]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Runs a program with these arguments of `Run`; returns what it said, and the newest journal."""

    def start_program(every: str, *launcher: str, program: str = PROGRAM, **environment: str) -> tuple[str, Events]:
        (tmp_path / "program.py").write_text(program.replace("EVERY", every))
        inherited = {name: value for name, value in os.environ.items() if name not in UNSET}
        done = subprocess.run(
            [sys.executable, *launcher, "program.py"],
            cwd=tmp_path,
            env={**inherited, **environment},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        journal = max((tmp_path / "job" / "attempts").glob("*.events.jsonl"))
        return done.stderr, [json.loads(line) for line in journal.read_text().splitlines()]

    return start_program


UNSET = {Env.MTTI, "SLURM_JOB_NUM_NODES", "GROUP_WORLD_SIZE"}


def of_kind(events: Events, kind: str) -> Events:
    return [event["data"] for event in events if event["kind"] == kind]


@pytest.mark.slow
def test_auto_saves_by_itself_and_says_how_often(start: Start) -> None:
    said, events = start('mtti="1s"')
    assert len(of_kind(events, "committed")) >= 3
    assert "saving every " in said
    assert "interrupted once in 1 s (mtti=)" in said
    paced = of_kind(events, "paced")
    assert paced[0]["interval_s"] > 0
    whole_s = events[-1]["at"] - events[0]["at"]
    assert 0 < paced[-1]["stall_s"] < whole_s, "for `lastgood plan`, which needs to know what a save cost the loop"


@pytest.mark.slow
def test_a_resumed_attempt_knows_at_its_start_what_saves_cost(start: Start, tmp_path: Path) -> None:
    start('mtti="1s"')
    (tmp_path / "job" / "finished.json").unlink()
    said, events = start('mtti="1s"')
    assert [event["kind"] for event in events][:2] == ["started", "paced"]
    assert said.index("resumed from step") < said.index("saving every")


@pytest.mark.slow
def test_the_environment_knows_better_than_the_program(start: Start) -> None:
    said, _ = start('mtti="30d"', **{Env.MTTI: "1s"})
    assert f"interrupted once in 1 s ({Env.MTTI})" in said


@pytest.mark.slow
def test_a_schedule_of_the_users_own_is_kept_and_not_talked_about(start: Start) -> None:
    said, events = start('every=lastgood.Every(first="50ms", then="300ms")')
    assert len(of_kind(events, "committed")) >= 3
    assert "saving every" not in said
    # For `lastgood status`, which compares the age of the last good with it.
    assert next(round(paced["interval_s"], 3) for paced in of_kind(events, "paced")) == 0.05


@pytest.mark.slow
def test_ranks_save_together_when_rank_0_says_so(start: Start) -> None:
    pytest.importorskip("torch")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    said, events = start('mtti="3s"', *torchrun, program=RANKS)
    assert of_kind(events, "committed")[-1]["step"] == 150
    assert len(of_kind(events, "committed")) >= 2
    assert said.count("saving every") == len([p for p in of_kind(events, "paced") if p["margin_s"] is not None]) >= 1


def test_the_rate_is_stated_or_assumed_for_the_number_of_nodes() -> None:
    assert read_surroundings({}).mtti == preset_mtti(1)
    assert read_surroundings({"SLURM_JOB_NUM_NODES": "16"}).mtti == preset_mtti(16)
    assert read_surroundings({"GROUP_WORLD_SIZE": "4"}).mtti == preset_mtti(4)
    assert read_surroundings({"SLURM_JOB_NUM_NODES": "0", "GROUP_WORLD_SIZE": "?"}).mtti == preset_mtti(1)
    stated = read_surroundings({Env.MTTI: "12h", "SLURM_JOB_NUM_NODES": "16"})
    assert (stated.mtti, stated.is_mtti_stated) == (Mtti(43200.0, Env.MTTI), True)


@pytest.mark.parametrize("text", ["soon", "0s", "12", "-1h"])
def test_a_rate_that_makes_no_sense_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(UsageError, match=Env.MTTI):
        read_surroundings({Env.MTTI: text})
