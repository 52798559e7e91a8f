"""Agents on the nodes of an allocation, with srun as the command. (srun is one that needs no Slurm, and two nodes share
this host; tests/cluster has the real one.)"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from lastgood.core.layout import Env
from lastgood.core.stopping import Manner
from lastgood.keeper.node import agent_file
from lastgood.launch import agents as agents_module
from lastgood.launch.agent_talk import Begin, line_of
from lastgood.launch.agents import NodeAgents
from lastgood.launch.step_command import StepCommand
from lastgood.store.jobdir import create_job
from lastgood.trial.processes import environment_of, words_of
from launch import fake_srun
from launch.conftest import LIMIT_S, Launcher, wait_for
from launch.programs import STAND_STILL
from launch.step_programs import SIGNALLED, TOGETHER

pytestmark = pytest.mark.slow
Script = Callable[[str, str], Path]


@pytest.fixture
def allocation(tmp_path: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    """The launcher runs on the first of two nodes; `srun` is in its PATH. Nothing of any step is left at the end."""
    directory = Path(os.path.relpath(tmp_path)) if len(os.fspath(tmp_path)) > 80 else tmp_path
    socket = directory / "slurm"
    given = {
        fake_srun.SOCKET: os.path.abspath(socket),
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURMD_NODENAME": "n1",
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_srun.__file__} "$@"\n')
    srun.chmod(0o755)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    launcher.environment |= given
    daemon = subprocess.Popen(
        [sys.executable, fake_srun.__file__, "--serve", os.fspath(socket)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=launcher.environment,
    )
    assert daemon.stdin is not None and daemon.stdout is not None
    assert daemon.stdout.readline() == b"ready\n"
    yield launcher
    try:
        wait_for(lambda: not [p for p in launcher.survivors() if p.pid != daemon.pid], "nothing is left")
    finally:
        daemon.stdin.close()
        daemon.wait(LIMIT_S)
        daemon.stdout.close()
    assert not [p for p in Path("/dev/shm").glob("lastgood-heartbeats-*") if is_of(p, launcher)]


def is_of(directory: Path, launcher: Launcher) -> bool:
    found = re.findall(r'"heartbeats":"([^"]+)"', "".join(p.read_text() for p in launcher.job.glob("attempts/*.jsonl")))
    return os.fspath(directory) in found


def processes(launcher: Launcher, what: str, node: str = "") -> list[psutil.Process]:
    """Those whose command line holds `what`, on a node if one is named."""
    found = []
    for process in launcher.survivors():
        try:
            if what in " ".join(words_of(process)) and node in ("", environment_of(process).get("SLURMD_NODENAME")):
                found.append(process)
        except psutil.Error:
            continue
    return found


def agents_of(launcher: Launcher, node: str) -> list[int]:
    found = []
    for process in processes(launcher, "lastgood.launch.agent", node):
        with suppress(psutil.NoSuchProcess):
            if process.ppid() != launcher.processes[-1].pid:
                found.append(process.pid)
    return found


def agent_of(launcher: Launcher, node: str) -> psutil.Process:
    found = [
        p for p in processes(launcher, "lastgood.launch.agent", node) if "fake_srun.py" not in " ".join(words_of(p))
    ]
    return found[0]


def resumed(launcher: Launcher) -> dict[str, Any]:
    return launcher.event(2, "started")


def test_signals_reach_the_ranks_on_all_nodes_and_nobody_else(allocation: Launcher, script: Script) -> None:
    process = allocation.start("srun", sys.executable, script("ranks.py", SIGNALLED))
    for rank in (0, 1):
        allocation.wait_for_output(f"rank {rank} is ready")
    # Of another job: same user, same nodes, and a step as well.
    other = subprocess.Popen(
        ["sleep", "600"],
        env={**allocation.environment, Env.LAUNCH: "another", Env.ATTEMPT: "1", "SLURM_STEP_ID": "7"},
    )
    try:
        process.send_signal(signal.SIGUSR2)
        for rank in (0, 1):
            allocation.wait_for_output(f"rank {rank} on n{rank + 1}: SIGUSR2")
        process.send_signal(signal.SIGTERM)
        ended = allocation.end_of(process)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert ended.code == 75, ended.err
    assert "passed to 2 process(es)" in ended.err
    assert "the agents on" not in ended.err, "they got no signal"
    for rank in (0, 1):
        assert f"rank {rank} on n{rank + 1}: SIGTERM" in ended.out


def test_at_the_end_of_the_grace_time_the_ranks_are_killed_and_what_they_have_started(
    allocation: Launcher, script: Script
) -> None:
    process = allocation.start(
        "--grace", "10s", "--", "srun", sys.executable, script("ranks.py", SIGNALLED), "stubborn", "nested"
    )
    for rank in (0, 1):
        allocation.wait_for_output(f"rank {rank} is ready")
    process.send_signal(signal.SIGTERM)
    ended = allocation.end_of(process)
    assert ended.code == 75, ended.err
    assert "the grace time is over" in ended.err
    for rank in (0, 1):
        assert f"rank {rank} on n{rank + 1}: SIGTERM" in ended.out


def test_what_a_killed_srun_leaves_on_the_nodes_is_asked_to_stop(allocation: Launcher, script: Script) -> None:
    process = allocation.start("--no-restart", "--", "srun", sys.executable, script("ranks.py", SIGNALLED))
    for rank in (0, 1):
        allocation.wait_for_output(f"rank {rank} is ready")
    (srun,) = (p for p in processes(allocation, "ranks.py") if "fake_srun.py" in words_of(p)[1])
    srun.kill()
    ended = allocation.end_of(process)
    assert "2 process(es) of the command still ran on the nodes: ended them" in ended.err
    assert allocation.outcomes() == ["killed"]


def test_without_agents_srun_passes_on_what_it_can(allocation: Launcher, script: Script, tmp_path: Path) -> None:
    srun = tmp_path / "bin" / "srun"
    lines = srun.read_text().splitlines()
    srun.write_text(
        "\n".join([lines[0], 'case "$*" in *launch.agent*) echo "srun: error: no room" >&2; exit 1;; esac', lines[1]])
    )
    process = allocation.start("srun", sys.executable, script("ranks.py", SIGNALLED))
    for rank in (0, 1):
        allocation.wait_for_output(f"rank {rank} is ready")
    allocation.wait_for_output("no agent answers on n1, n2 (srun: error: no room)", "err")
    process.send_signal(signal.SIGUSR2)
    allocation.wait_for_output("rank 1 on n2: SIGUSR2")
    process.send_signal(signal.SIGTERM)
    # These do not stop for it, as the library's ranks do.
    allocation.wait_for_output("rank 1 on n2: SIGUSR1")
    process.send_signal(signal.SIGINT)
    assert allocation.end_of(process).code == 75


def test_without_agents_srun_is_not_asked_to_save_by_a_signal_at_which_it_ends_the_ranks() -> None:
    step = StepCommand(lambda: subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE), None)
    try:
        assert step.send(signal.SIGHUP, manner=Manner.SAVE) == 0
        assert psutil.Process(step.pid).is_running()
        assert step.send(signal.SIGUSR1, manner=Manner.SAVE) == 1
        wait_for(step.is_gone)
        assert step.status == -signal.SIGUSR1
    finally:
        step.kill_now()


def test_a_rank_is_killed_and_all_restore_from_the_memory_of_their_nodes(allocation: Launcher, script: Script) -> None:
    ended = allocation.run("srun", sys.executable, script("ranks.py", TOGETHER), 40, "damage", "die")
    assert ended.code == 0, ended.err
    # On storage that step is damaged: whoever had read it there would have gone back to the one before.
    assert resumed(allocation) | {"step": 20, "is_from_memory": True} == resumed(allocation)
    for rank in (0, 1):
        assert f"rank {rank} on n{rank + 1} begins at 20" in ended.out
        assert f"rank {rank} has {820 * (rank + 1)}" in ended.out
    assert len(allocation.outcomes()) == 2


def test_a_part_that_a_dead_rank_of_another_node_owes_is_not_waited_for_to_the_limit(
    allocation: Launcher, script: Script
) -> None:
    ended = allocation.run("srun", sys.executable, script("ranks.py", TOGETHER), 40, "die before its part")
    assert ended.code == 0, ended.err
    assert resumed(allocation) | {"step": 10, "is_from_memory": True} == resumed(allocation)
    (failed,) = (e["data"] for e in allocation.events(1) if e["kind"] == "save_failed")
    assert "rank 1 gave no part (the ranks of other nodes have ended without it)" in failed["error"]
    assert f"rank 1 has {2 * 820}" in ended.out


def test_where_one_node_has_lost_its_memory_that_node_reads_storage(
    allocation: Launcher, script: Script, tmp_path: Path
) -> None:
    allocation.environment["KEEPER_PID"] = os.fspath(tmp_path / "pid")
    process = allocation.start("srun", sys.executable, script("ranks.py", TOGETHER), 40, "forget", "die")
    keepers = wait_for(lambda: processes(allocation, "keeper/__main__.py", "n2"), "a keeper on n2")
    assert wait_for(lambda: processes(allocation, "keeper/__main__.py", "n1"), "a keeper on n1") != keepers
    (tmp_path / "new").write_text(str(keepers[0].pid))
    (tmp_path / "new").rename(tmp_path / "pid")
    ended = allocation.end_of(process)
    assert ended.code == 0, ended.err
    assert resumed(allocation)["step"] == 20
    for rank in (0, 1):
        assert f"rank {rank} has {820 * (rank + 1)}" in ended.out
    lost = [e["data"] for e in allocation.events(1) if e["kind"] == "keeper_lost"]
    assert [data.get("node") for data in lost] == ["n2"]


def test_a_rank_that_stands_still_on_another_node_is_found_and_asked_for_its_stacks(
    allocation: Launcher, script: Script
) -> None:
    program = script("rank.py", STAND_STILL)
    words = 'exec "$0" "$1" $SLURM_PROCID both $([ $SLURM_PROCID = 0 ] && echo moving)'
    ended = allocation.run(
        "--hang-timeout", "10s", "--no-restart", "--", "srun", "bash", "-c", words, sys.executable, program
    )
    assert "hang: rank 1 has stood still" in ended.err
    assert 'File "' in ended.err and "rank.py" in ended.err, "the stacks"
    assert allocation.event(1, "hang")["ranks"] == [0, 1]
    assert allocation.outcomes() == ["hang"]


@pytest.mark.parametrize("what", ["the step", "an agent"])
def test_agents_that_die_are_replaced_and_the_ranks_do_not_notice(
    allocation: Launcher, script: Script, what: str
) -> None:
    process = allocation.start("srun", sys.executable, script("ranks.py", SIGNALLED))
    for rank in (0, 1):
        allocation.wait_for_output(f"rank {rank} is ready")
    first = agent_of(allocation, "n2")
    if what == "the step":
        for srun in [
            p for p in processes(allocation, "fake_srun.py") if "lastgood.launch.agent" in " ".join(words_of(p))
        ]:
            srun.kill()
        allocation.wait_for_output("the agents on n1, n2 have ended", "err")
    else:
        first.kill()
        allocation.wait_for_output("the agents on n2 have ended, or are silent", "err")
    wait_for(lambda: agents_of(allocation, "n2") not in ([], [first.pid]), "another agent")
    # The first ones end what is theirs when they see that nobody listens; not the ranks, which have others now.
    process.send_signal(signal.SIGUSR2)
    allocation.wait_for_output("rank 1 on n2: SIGUSR2")
    process.send_signal(signal.SIGTERM)
    ended = allocation.end_of(process)
    assert ended.code == 75, ended.err
    assert allocation.event(1, "agents_lost")["nodes"] == (["n1", "n2"] if what == "the step" else ["n2"])


def test_when_the_launcher_is_killed_nothing_stays_and_what_was_saved_is_there(
    allocation: Launcher, script: Script
) -> None:
    process = allocation.start("srun", sys.executable, script("ranks.py", TOGETHER), 4000, "slow")
    allocation.wait_for_output("begins at 0")
    wait_for(lambda: [e for e in allocation.events(1) if e["kind"] == "committed"], "a checkpoint")
    process.kill()
    process.wait()
    wait_for(lambda: not processes(allocation, "ranks.py"), "the ranks end")
    wait_for(lambda: not processes(allocation, "keeper/__main__.py"), "the keepers end")
    newest = max(e["data"]["step"] for e in allocation.events(1) if e["kind"] == "committed")
    ended = allocation.run("srun", sys.executable, script("ranks.py", TOGETHER), newest + 10)
    assert ended.code == 0, ended.err
    assert resumed(allocation)["step"] >= newest


def test_an_agent_that_has_a_successor_removes_the_heartbeats_if_it_is_the_last_to_go(tmp_path: Path) -> None:
    """It may be slow, and the job be over before it has ended."""
    job = create_job(tmp_path / "job")
    heartbeats = tmp_path / "lastgood-heartbeats-x"
    agent = subprocess.Popen(
        [sys.executable, "-m", "lastgood.launch.agent", job.path, job.id],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, Env.KEEPER: "off", "SLURMD_NODENAME": "n1"},
    )
    assert agent.stdin is not None
    agent.stdin.write(line_of(Begin(1, "launch", 1, os.fspath(heartbeats), 30.0)))
    agent.stdin.flush()
    its_own = f"{agent.pid}\n"
    where = heartbeats / agent_file("n1")
    wait_for(lambda: where.exists() and where.read_text() == its_own, "its word that it is there")
    (tmp_path / "new").write_text("1\n")
    (tmp_path / "new").rename(where)
    agent.stdin.close()
    assert agent.wait(LIMIT_S) == 0
    assert not heartbeats.exists()


# The launcher's side alone -----------------------------------------------------------------------------------


class Household:
    def note_stranger(self, pid: int) -> None:
        pass

    def write(self, kind: str, **data: Any) -> None:
        pass


def test_nodes_whose_agent_does_not_come_are_named_and_not_waited_for_again(
    allocation: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents_module, "READY_LIMIT_S", 20.0)
    said: list[str] = []

    def start(words: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        # Only the first node has room.
        fewer = [*(word for word in words if not word.startswith("--nodes=")), "--nodes=1"]
        split = words.index(sys.executable)
        fewer = [*words[:split], "--nodelist=n1", *words[split:]]
        return subprocess.Popen(
            fewer,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=allocation.environment,
            start_new_session=True,
        )

    job = create_job(tmp_path / "job")
    agents = NodeAgents(job, ["n1", "n2"], os.environ, said.append, start)
    agents.start()
    assert agents.are_there
    assert agents.sees_job == {"n1": True}
    assert [text for text in said if "no agent answers on n2" in text] == said
    # Were they waited for, this would not come to an end.
    monkeypatch.setattr(agents_module, "READY_LIMIT_S", 3600.0)
    agents.start()
    agents.look(Household(), Household())
    agents.close()
    assert len(said) == 1


def test_a_node_that_does_not_see_the_job_says_so(allocation: Launcher, tmp_path: Path) -> None:
    job = create_job(tmp_path / "job")
    moved = tmp_path / "elsewhere"
    job.path.rename(moved)
    create_job(tmp_path / "job")
    agents = NodeAgents(job, ["n1", "n2"], os.environ, print)
    agents.start()
    assert agents.sees_job == {"n1": False, "n2": False}, "another job is there by now"
    agents.close()


def test_no_call_waits_for_agents_that_are_frozen(
    allocation: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    job = create_job(tmp_path / "job")
    agents = NodeAgents(job, ["n1", "n2"], allocation.environment, said.append)
    agents.start()
    for name, limit_s in (("SILENT_S", 3.0), ("ANSWER_LIMIT_S", 0.5), ("_LEAVE_S", 1.0)):
        monkeypatch.setattr(agents_module, name, limit_s)
    frozen = [agent_of(allocation, node) for node in ("n1", "n2")]
    for process in frozen:
        process.suspend()
    try:
        began = time.monotonic()
        agents.begin("launch", 1, tmp_path / "lastgood-heartbeats-x", 1.0)
        assert agents.signal(signal.SIGTERM) == 0
        assert agents.ask_for_stacks() == []
        agents.await_written(lambda: True)
        agents.await_promoted(lambda: True)
        agents.close()
        assert time.monotonic() - began < LIMIT_S
    finally:
        for process in frozen:
            process.resume()
    assert "do not end within" in said[-1]
