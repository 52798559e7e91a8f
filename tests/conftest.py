"""What all tests share: no test touches the user's own state directory, a way to make checkpoints,
and the summary of the fault campaigns."""

import os
import signal
import struct
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lastgood.core.manifest import Manifest
from lastgood.core.tensorfile import ArraySpec
from lastgood.store.attempts import claim_attempt
from lastgood.store.jobdir import JobDirectory, create_job
from lastgood.store.writer import CheckpointWriter

# A shell that starts this in the background has SIGINT ignored, and what is started here would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test judges by time: a machine that is busy would fail them.
settings.register_profile("lastgood", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lastgood")


@pytest.fixture(autouse=True)
def _own_state_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for everything that a test starts."""
    monkeypatch.setenv("LASTGOOD_STATE_DIR", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(autouse=True)
def _short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepers of jobs that a test has killed are soon gone."""
    monkeypatch.setenv("LASTGOOD_KEEPER_LINGER", "2s")


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    """An empty job with its first attempt claimed."""
    job = create_job(tmp_path / "job")
    claim_attempt(job, "launch-1")
    return job


SaveStep = Callable[..., Manifest]


@pytest.fixture
def save_step(job: JobDirectory) -> SaveStep:
    """Commits a small checkpoint: `save_step(7, attempt=1, world_size=1, metrics={...})`.

    Each rank stores `model.w` (8 numbers: the step plus the rank) and `model.n` (an integer), and the
    plain values {"lr": 0.1} in the entry `optimizer`. `floats` makes `model.w` that long.
    """

    def save(
        step: int, *, attempt: int = 1, world_size: int = 1, floats: int = 8, into: JobDirectory = job, **commit: object
    ) -> Manifest:
        writer = CheckpointWriter(into, step, attempt)
        for rank in range(world_size):
            values = struct.pack(f"<{floats}f", *[float(step + rank)] * floats)
            arrays = [
                (ArraySpec("model.w", "F32", (floats,)), memoryview(values)),
                (ArraySpec("model.n", "I64", ()), memoryview(struct.pack("<q", step))),
            ]
            model = {"w": {"$array": "model.w", "kind": "numpy"}, "n": {"$array": "model.n", "kind": "numpy"}}
            entries = {
                "model": model,
                "optimizer": {"lr": 0.1, "betas": {"$tuple": [0.9, 0.999]}},
                "lastgood": {"step": step},
            }
            writer.write_part(rank, arrays, entries)
        return writer.commit(world_size, **commit)

    return save


SKIPPED_EVERYWHERE = (
    "there is no GPU here that torch can use",
    "`criu check` does not pass on this machine",
    "CRIU is not installed",
    "root may read everything",
    "this torch has no",
    "no padding in this machine's long double",
)
"""Why a test may be skipped also where LASTGOOD_TESTS_SKIP_NOTHING is 1, such as in CI. Any other skip is a failure there: a
machine that lacks a tool, a device or a right must not leave tests out in silence."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or os.environ.get("LASTGOOD_TESTS_SKIP_NOTHING") != "1":
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(SKIPPED_EVERYWHERE):
        report.outcome = "failed"
        report.longrepr = f"{reason}: nothing may be skipped here"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line that counts what the fault campaigns tried. Here, because with several workers the process that
    reports loads this file only."""
    totals: dict[str, int] = {}
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "kill points":
                totals[value[1]] = totals.get(value[1], 0) + value[0]
    if totals:
        terminalreporter.write_line("campaigns: " + ", ".join(f"{count} {what}" for what, count in totals.items()))
