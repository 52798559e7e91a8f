"""Twenty jobs at once, under every kind of fault, at random: all of them end right.

LASTGOOD_TESTS_SEED chooses the faults; what they meet depends on the moment.
"""

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from .machine import wait_until
from .slurm import LIMIT_S, SlurmCluster
from .walk import Walk, Way

JOBS, EVERY, STEPS, PAUSE_S = 20, 10, 240, 0.4
FAULTS_S = 100.0
PLAN = {
    "node killed": 3,
    "preemption": 5,
    "scontrol requeue": 6,
    "rank killed": 9,
    "launcher killed": 4,
}
"""How often each strikes, if it finds a job that it may strike. Time limits come by themselves."""
CRASHES = 2
"""How often slurmctld is killed."""


class Job:
    """One of the jobs. Slurm knows all of its segments by one name."""

    def __init__(self, cluster: SlurmCluster, directory: Path, number: int) -> None:
        self.name = f"walk-{number:02d}"
        # Slurm does not requeue these, so they have segments behind them.
        self.is_chain = number % 3 == 0
        has_limit = number % 5 == 0
        self.walk = Walk(
            cluster, directory / self.name, Way.LASTGOOD, steps=STEPS, pause_s=PAUSE_S, every=EVERY, seed=1000 * number
        )
        options = ["--no-requeue"] if self.is_chain else ["--requeue"]
        options += ["--time=1"] if has_limit else []
        run_options = ["--grace", "10s"] if has_limit else []
        self.walk.submit(f"--job-name={self.name}", *options, script=self.walk.batch(*run_options))
        self.died: set[int] = set()
        """Attempts whose node was killed."""

    def printed(self) -> dict[int, tuple[int, int]]:
        """The first and the last step that each attempt has printed."""
        found: dict[int, tuple[int, int]] = {}
        for step, attempt in re.findall(r"^step (\d+) of rank 0 in attempt (\d+)$", self.walk.text(), re.MULTILINE):
            first, _ = found.get(int(attempt), (int(step), 0))
            found[int(attempt)] = (first, int(step))
        return found

    @property
    def is_nearly_done(self) -> bool:
        """It could be finished before a fault that begins now is over, and Slurm might then not learn of it."""
        return max((last for _, last in self.printed().values()), default=0) > STEPS - 3 * EVERY

    @property
    def gets_on(self) -> bool:
        """Its newest attempt has done more than what the one before had saved."""
        printed = self.printed()
        first, last = printed[max(printed)] if printed else (0, 0)
        return max(printed, default=0) == self.walk.attempts and last - first > EVERY + 2 and last < STEPS - EVERY

    def processes(self, *words: str) -> list[psutil.Process]:
        """Those whose command line begins with these words, as far as they are given."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if line[: len(words)] == list(words) and any(os.fspath(self.walk.directory) in word for word in line):
                found.append(process)
        return found


class Storm:
    """Strikes one fault after the other; each method is one, and says whether it found what it may strike."""

    def __init__(self, cluster: SlurmCluster, jobs: list[Job], chance: random.Random) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._chance = chance
        self.struck: Counter[str] = Counter()
        self.log: list[str] = []
        self._methods: dict[str, Callable[[], bool]] = {
            "node killed": self._kill_node,
            "preemption": self._preempt,
            "slurmctld killed": self._kill_controller,
            "scontrol requeue": self._requeue,
            "rank killed": self._kill_rank,
            "launcher killed": self._kill_launcher,
        }

    def strike(self, kind: str, limit_s: float = 40) -> None:
        end = time.monotonic() + limit_s
        while not self._methods[kind]():
            if time.monotonic() > end:
                return
            time.sleep(0.3)
        self.struck[kind] += 1
        self.log.append(f"{time.strftime('%H:%M:%S')} {kind}")

    def _queue(self) -> list[dict[str, str]]:
        lines = self._cluster.run("squeue", "-h", "-a", "-o", "%i|%j|%T|%N").stdout.splitlines()
        return [dict(zip(("id", "name", "state", "node"), line.split("|"), strict=True)) for line in lines]

    def _running(self, *, is_safe: bool = False) -> dict[str, tuple[Job, int, str]]:
        """The jobs that run, their numbers and nodes. `is_safe`: only those that something would start again at once."""
        queue = self._queue()
        waiting = {one["name"] for one in queue if one["state"] == "PENDING"}
        rows = {one["name"]: one for one in queue if one["state"] == "RUNNING"}
        return {
            job.name: (job, int(rows[job.name]["id"]), rows[job.name]["node"])
            for job in self._jobs
            if job.name in rows and (not is_safe or not job.is_chain or job.name in waiting)
        }

    def _node(self) -> str:
        """One on which jobs run, all of which would be started again if it died; empty if there is none."""
        running, safe = self._running(), self._running(is_safe=True)
        at_risk = {node for name, (job, _, node) in running.items() if name not in safe or job.is_nearly_done}
        taken = {one["node"] for one in self._queue() if not one["name"].startswith("walk-")}
        nodes = sorted({node for _, _, node in safe.values()} - at_risk - taken)
        return self._chance.choice(nodes) if nodes else ""

    def _kill_node(self) -> bool:
        if not (node := self._node()):
            return False
        here = [(job, number) for job, number, where in self._running().values() if where == node]
        self._cluster.kill_node(node)
        self._cluster.notice(node)
        for job, _ in here:
            job.died.add(job.walk.attempts)
        wait_until(
            lambda: not [1 for _, _, where in self._running().values() if where == node], f"{node} is empty", LIMIT_S
        )
        self._cluster.restore_node(node)
        return True

    def _preempt(self) -> bool:
        if not (node := self._node()):
            return False
        self._cluster.preempt([node], hold_s=0.5)
        return True

    def _kill_controller(self) -> bool:
        # What it has not saved is lost with it, and a segment that was just submitted would be, too.
        before = self._cluster.state_saved_at()
        end = time.monotonic() + 6
        while self._cluster.state_saved_at() <= before and time.monotonic() < end:
            time.sleep(0.01)
        self._cluster.stop_controller(crash=True)
        time.sleep(self._chance.uniform(0.5, 4))
        self._cluster.start_controller()
        return True

    def _requeue(self) -> bool:
        numbers = [number for job, number, _ in self._running().values() if not job.is_chain]
        return (
            bool(numbers) and not self._cluster.run("scontrol", "requeue", str(self._chance.choice(numbers))).returncode
        )

    def _kill_rank(self) -> bool:
        ready = [job for job, _, _ in self._running().values() if job.gets_on]
        if not ready:
            return False
        job = self._chance.choice(ready)
        return self._kill(job, sys.executable, os.fspath(job.walk.program))

    def _kill_launcher(self) -> bool:
        """Nobody is left who could say that Slurm is to requeue the job: the next segment is what helps."""
        chains = [job for job, _, _ in self._running(is_safe=True).values() if job.is_chain and job.gets_on]
        return bool(chains) and self._kill(self._chance.choice(chains), sys.executable, "-m", "lastgood", "run")

    def _kill(self, job: Job, *words: str) -> bool:
        processes = job.processes(*words)
        for process in processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                return False
        return bool(processes)


def shuffled_plan(chance: random.Random) -> list[str]:
    """slurmctld is killed in the first half, when no job can be finished: one that ends in its last seconds is forgotten to
    have ended, and counts as lost with its node."""
    plan = [kind for kind, count in PLAN.items() for _ in range(count)]
    chance.shuffle(plan)
    for _ in range(CRASHES):
        plan.insert(chance.randrange(len(plan) // 2), "slurmctld killed")
    return plan


@pytest.mark.timeout(900)
def test_many_jobs_under_many_faults_all_end_right(
    cluster: SlurmCluster, shared: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("LASTGOOD_TESTS_SEED", "1"))
    print(f"LASTGOOD_TESTS_SEED={seed}")
    chance = random.Random(seed)
    # More jobs than CPUs, and all of them run.
    cluster.configure(main={"OverSubscribe": "FORCE:2"})
    jobs = [Job(cluster, shared, number) for number in range(JOBS)]
    wait_until(lambda: all(job.printed() for job in jobs), "all jobs compute", LIMIT_S)

    storm = Storm(cluster, jobs, chance)
    plan = shuffled_plan(chance)
    began = time.monotonic()
    for number, kind in enumerate(plan):
        time.sleep(max(began + number * FAULTS_S / len(plan) - time.monotonic(), 0))
        storm.strike(kind)

    def all_done() -> bool:
        return all(job.walk.is_finished for job in jobs) and not cluster.run("squeue", "-h", "-a").stdout.strip()

    wait_until(
        all_done, "all jobs are finished, and none is in the queue", 400, lambda: _unfinished(cluster, jobs, storm)
    )
    limits = sum(job.walk.outcomes().count("time limit") for job in jobs)
    attempts = sum(job.walk.attempts for job in jobs)
    counts = ", ".join(f"{kind} {storm.struck[kind]}" for kind in sorted(set(plan)))
    print(f"seed {seed}: {JOBS} jobs, {attempts} attempts; {counts}, time limit {limits}")
    record_property("kill points", (storm.struck.total() + limits, f"random faults on {JOBS} jobs under Slurm"))
    assert all(storm.struck[kind] for kind in plan) and limits, f"seed {seed}: every kind has struck: {storm.struck}"

    for job in jobs:
        what = "\n".join([f"seed {seed}: {job.name}", *storm.log, job.walk.text()])
        assert job.walk.answers() == job.walk.right_answers(), what
        last = int(job.walk.event(job.walk.attempts, "allocation")["job_id"])
        assert cluster.state(last) == "COMPLETED", what
        _check_steps(job, what)
    _check_nothing_is_left(cluster, shared, jobs)


def _unfinished(cluster: SlurmCluster, jobs: list[Job], storm: Storm) -> str:
    texts = [f"--- {job.name}\n{job.walk.text()[-3000:]}" for job in jobs if not job.walk.is_finished]
    return "\n".join([*storm.log, cluster.run("squeue", "-a").stdout, *texts])


def _check_steps(job: Job, what: str) -> None:
    """No attempt went back further than to the last checkpoint that was due; where the node died, to the one before,
    which may be the last that was on the disk."""
    printed = job.printed()
    reached = 0
    for attempt in sorted(printed):
        first, last = printed[attempt]
        before = {number for number in job.died if number < attempt and number >= attempt - 2}
        allowed = 2 * EVERY if before else EVERY
        assert reached - first < allowed, f"attempt {attempt} began at step {first} after step {reached}; {what}"
        reached = max(reached, last)
    assert reached == STEPS, what


def _check_nothing_is_left(cluster: SlurmCluster, shared: Path, jobs: list[Job]) -> None:
    def processes() -> list[str]:
        found = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
        return [line for line in found if os.fspath(shared) in line]

    wait_until(
        lambda: not processes(), "no launcher, agent, program or keeper is left", 30, lambda: "\n".join(processes())
    )
    wait_until(lambda: not any(map(cluster.processes_of_node, cluster.nodes)), "no process is left on a node", LIMIT_S)
    left = []
    for job in jobs:
        for attempt in range(1, job.walk.attempts + 1):
            launched = [event["data"] for event in job.walk.events(attempt) if event["kind"] == "launched"]
            paths = [Path(data["heartbeats"]) for data in launched if Path(data["heartbeats"]).exists()]
            ended = any(event["kind"] == "ended" for event in job.walk.events(attempt))
            assert not paths or not ended, f"{job.name}: attempt {attempt} has ended, and left {paths}"
            left += paths
    # What killed launchers left is removed by the next one on the node, once it is a minute old.
    for path in left:
        os.utime(path, (0, 0))
    command = [sys.executable, "-m", "lastgood", "run", "--job", os.fspath(shared / "next"), "--", "true"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "LASTGOOD_KEEPER": "off"})
    assert not [path for path in left if path.exists()]
