"""`lastgood run --same-gpu`: on other GPUs than the job began on nothing is started. nvidia-smi is a fake; no GPU was here."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lastgood.core.errors import StartRefusedError
from lastgood.launch.leaving import Leaving
from lastgood.launch.nvidia import GpusNotToldError, ask_nvidia_smi
from lastgood.launch.output import Console, JobLog
from lastgood.launch.ports import Left
from lastgood.schedulers.local import LocalScheduler
from lastgood.store.attempts import read_events
from lastgood.store.jobdir import JobDirectory

from .conftest import Launcher
from .programs import LOOP

A100 = "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"


def lines(*models: str) -> str:
    return "".join(f"{i}, GPU-{i:08d}-0000, {model}, 550.54.15\n" for i, model in enumerate(models))


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    """A fake nvidia-smi in a directory of its own; it prints the file `gpus` beside it."""
    place = tmp_path / "tools"
    place.mkdir()
    program = place / "nvidia-smi"
    program.write_text('#!/bin/sh\n[ "$1" = --query-gpu=index,uuid,name,driver_version ] || exit 2\ncat "$0.gpus"\n')
    program.chmod(0o755)
    (place / "nvidia-smi.gpus").write_text(lines(A100, A100))
    return place / "nvidia-smi.gpus"


@pytest.fixture
def start(launcher: Launcher, smi: Path, script: Callable[[str, str], Path]) -> Callable[..., object]:
    loop = script("loop.py", LOOP)
    launcher.environment["PATH"] = f"{smi.parent}:{launcher.environment['PATH']}"

    def run(*deaths: str, options: tuple[str, ...] = ()) -> object:
        return launcher.run("--same-gpu", *options, "--", sys.executable, loop, 30, *deaths)

    return run


@pytest.mark.slow
def test_on_other_gpus_nothing_is_started_and_on_the_same_it_goes_on(launcher: Launcher, smi: Path, start) -> None:
    assert start("1:13:kill", options=("--no-restart",)).code == 137
    assert launcher.event(1, "surroundings")["gpu_models"] == [A100, A100]
    smi.write_text(lines(H100, H100))
    refused = start()
    assert refused.code == 80
    assert f"attempt 1 ran on 2 x {A100}, and here the job would have 2 x {H100} (--same-gpu)" in refused.err
    assert "nothing was started, and what is saved stays" in refused.err
    assert launcher.outcomes() == ["killed"]
    smi.write_text(lines(A100, A100))
    assert start().code == 0
    assert launcher.event(2, "started")["step"] == 10


@pytest.mark.slow
def test_a_gpu_that_is_lost_between_two_attempts_ends_the_launch(launcher: Launcher, smi: Path, script, start) -> None:
    """In place of a restart with one GPU less."""
    script("loop.py", f"open({str(smi)!r}, 'w').write({lines(A100)!r})\n{LOOP}")
    ended = start("1:13:kill")
    assert ended.code == 80
    assert f"here the job would have 1 x {A100}" in ended.err
    assert launcher.outcomes() == ["killed"]


@pytest.mark.slow
def test_a_new_start_may_begin_on_other_gpus(launcher: Launcher, smi: Path, start) -> None:
    assert start("1:13:kill", options=("--no-restart",)).code == 137
    smi.write_text(lines(H100))
    assert start(options=("--fresh",)).code == 0
    assert launcher.event(2, "surroundings")["gpu_models"] == [H100]
    smi.write_text(lines(A100, A100))
    assert start().code == 80


@pytest.mark.slow
def test_gpus_that_the_program_may_not_use_do_not_count(launcher: Launcher, smi: Path, start) -> None:
    smi.write_text(lines(H100, A100))
    launcher.environment["CUDA_VISIBLE_DEVICES"] = "1"
    assert start("1:13:kill", options=("--no-restart",)).code == 137
    assert launcher.event(1, "surroundings")["gpu_models"] == [A100]
    smi.write_text(lines(A100, H100))
    assert start().code == 80
    launcher.environment["CUDA_VISIBLE_DEVICES"] = "0"
    assert start().code == 0


@pytest.mark.slow
def test_where_the_gpus_cannot_be_told_nothing_is_started(launcher: Launcher, smi: Path, start) -> None:
    smi.write_text("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    refused = start()
    assert refused.code == 80
    assert "which GPUs are here cannot be told: nvidia-smi says: NVIDIA-SMI has failed" in refused.err
    assert launcher.outcomes() == []


@pytest.mark.slow
def test_without_the_option_nobody_asks(launcher: Launcher, smi: Path, script) -> None:
    (smi.parent / "nvidia-smi").write_text(f"#!/bin/sh\ntouch {smi}.asked\n")
    launcher.environment["PATH"] = f"{smi.parent}:{launcher.environment['PATH']}"
    assert launcher.run(sys.executable, script("loop.py", LOOP), 30).code == 0
    assert not Path(f"{smi}.asked").exists()


def test_without_nvidia_smi_there_is_no_answer(tmp_path: Path) -> None:
    assert ask_nvidia_smi({"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("does", "limit_s", "says"),
    [
        ("exec sleep 600", 0.5, "does not answer within 0.5 s"),
        ("exit 9", 60, "ended with 9"),
        ("echo 0, GPU-1; exit 0", 60, "says: 0, GPU-1"),
        ("kill -SEGV $$", 60, "ended with -11"),
    ],
)
def test_what_is_no_answer_is_said(tmp_path: Path, does: str, limit_s: float, says: str) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    with pytest.raises(GpusNotToldError, match=says):
        ask_nvidia_smi({"PATH": f"{tmp_path}:/usr/bin:/bin"}, limit_s=limit_s)


def test_a_node_without_devices_has_no_gpus(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    program.chmod(0o755)
    assert ask_nvidia_smi({"PATH": f"{tmp_path}:/usr/bin:/bin"}) == []


class Sending(LocalScheduler):
    """One that can have the job started on other nodes."""

    def may_avoid(self) -> int:
        return 1

    def avoid(self, nodes: Sequence[str]) -> Left:
        return Left(75, f"put back, away from {', '.join(nodes)}")


def test_a_job_that_comes_back_to_the_same_wrong_node_again_and_again_is_refused(job: JobDirectory) -> None:
    """Where the scheduler does not keep it away, it would go round for ever."""
    leaving = Leaving(job, Sending({}, time_limit_s=None, started=0.0), Console(JobLog(job.log)))
    for _ in range(3):
        assert leaving.for_other_gpus("other GPUs", {"node": "n2"}) == 75
    with pytest.raises(StartRefusedError, match=r"other GPUs \(--same-gpu\)"):
        leaving.for_other_gpus("other GPUs", {"node": "n2"})
    assert leaving.for_other_gpus("other GPUs", {"node": "n3"}) == 75
    assert [e.data["nodes"] for e in read_events(job, 1) if e.kind == "excluded"] == [["n2"], ["n2"], ["n2"], ["n3"]]


def test_without_a_scheduler_it_is_refused(job: JobDirectory) -> None:
    leaving = Leaving(job, LocalScheduler({}, time_limit_s=None, started=0.0), Console(JobLog(job.log)))
    with pytest.raises(StartRefusedError):
        leaving.for_other_gpus("other GPUs", {})
    assert read_events(job, 1) == []
