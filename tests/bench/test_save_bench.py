"""The benchmarks of saves, restores and restarts, with states of a megabyte: every row is there, none by silence."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BENCH = Path(__file__).parents[2] / "bench"


def run(script: str, tmp_path: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """What it prints, and what it keeps."""
    output, work = tmp_path / "found.json", tmp_path / "work"
    work.mkdir()
    common = [
        "--rounds",
        "1",
        "--scale",
        "0.0005",
        "--pause-s",
        "0",
        "--limit-s",
        "120",
        "--directory",
        str(work),
        "--output",
        str(output),
    ]
    done = subprocess.run(
        [sys.executable, str(BENCH / f"{script}.py"), *common, *options],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "LASTGOOD_STATE_DIR": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stderr
    assert list(work.iterdir()) == [], "the benchmark left something behind"
    assert "had to be ended" not in done.stderr
    found: dict[str, Any] = json.loads(output.read_text())
    return done.stdout, found


def rows(table: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {line[0]: line[1:] for line in lines[2:]}


def test_stalls_and_durable_times_are_measured_and_a_peer_that_is_not_here_is_named(tmp_path: Path) -> None:
    printed, found = run(
        "save",
        tmp_path,
        *("--figures", "stall,durable", "--kinds", "arrays"),
        *("--contenders", "lastgood,torch-save,dlrover-disk"),
    )
    assert found["absent"]["dlrover-disk"].startswith("not installed: dlrover")
    stall, durable = (rows(table) for table in found["tables"])
    for table in (stall, durable):
        assert table["DLRover flash checkpoint, to disk"][0].startswith("not installed: dlrover")
        assert all(table["lastgood"]), "a figure is missing"
        assert all(table["torch.save + fsync"])
    assert {"raw direct write, 1 thread", "raw direct write, 2 threads", "fio"} <= durable.keys()
    ours = found["raw"]["durable arrays"]["runs"]["lastgood"][0]
    assert len(ours["durable_s"]) == 3
    assert all(kept >= ours["bytes"] for kept in ours["kept"])
    assert all(written >= ours["bytes"] for written in ours["written"])
    assert any(v[0].startswith("arrays: durable / torch-save") for v in found["verdicts"])
    assert "| figure | measured | goal |" in printed
    assert {"cpu", "cores", "memory", "storage", "date", "command", "torch", "lastgood"} <= found.keys()


def test_slowdown_and_memory_are_measured_against_the_same_loop_without_saves(tmp_path: Path) -> None:
    _, found = run(
        "save",
        tmp_path,
        *("--figures", "slowdown,memory", "--kinds", "transformer"),
        *("--contenders", "lastgood"),
    )
    one, two, memory = (rows(table) for table in found["tables"])
    for table in (one, two):
        assert table["no saves"][0] == "0.0 %"
        assert table["lastgood"][0].endswith("%")
    extra = found["raw"]["memory transformer"]["lastgood"][0]["extra"]
    assert 0 < extra < 500e6
    assert memory.keys() == {"lastgood"}


def test_cold_restores_bring_back_what_was_saved_with_nothing_in_the_page_cache(tmp_path: Path) -> None:
    _, found = run(
        "recover",
        tmp_path,
        *("--figures", "restore", "--kinds", "small"),
        *("--contenders", "lastgood,torch-load-mmap,dcp,torch-checkpointing"),
    )
    (restore,) = (rows(table) for table in found["tables"])
    assert {"lastgood.Run, every byte checked", "torch.load(mmap=True)", "dcp.load", "fio"} <= restore.keys()
    assert restore["torch_checkpointing load"][0] == "not installed: torch_checkpointing"
    for runs in found["raw"]["restore small"]["runs"].values():
        assert [one["cached_before"] for one in runs] == [0.0]
        assert all(one["load_s"] > 0 for one in runs)


def test_a_killed_job_goes_on_from_what_it_saved_however_it_is_restarted(tmp_path: Path) -> None:
    _, found = run("recover", tmp_path, "--figures", "restart", "--ways", "run,bare", "--models", "small")
    (model,) = found["raw"].values()
    for way in ("run", "bare"):
        (killed,) = model[way]
        assert killed["from"] >= 100
        assert all(part >= 0 for part in killed["parts"])
        assert sum(killed["parts"]) > 0
    (table,) = (rows(table) for table in found["tables"])
    assert table.keys() == {"lastgood run", "torch.save, a shell loop"}


def test_documents_of_many_ranks_are_written_read_and_verified_in_every_phase(tmp_path: Path) -> None:
    output = tmp_path / "manifest.json"
    command = [sys.executable, str(BENCH / "manifest.py"), "--ranks", "4,16", "--arrays", "20"]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path), "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(output.read_text())["results"]
    for kind in ("own", "replicated"):
        assert results[kind].keys() == {"4", "16"}
        for phases in results[kind].values():
            assert phases.keys() == {"part", "commit", "open", "start", "verify"}
            assert all(phase["peak_bytes"] > 0 for phase in phases.values())
    assert done.stdout.count("exponent") == 2
    assert list(tmp_path.iterdir()) == [output], "the benchmark left something behind"
