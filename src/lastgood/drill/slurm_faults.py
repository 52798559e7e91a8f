"""The faults of a drill under Slurm: what can be done to a job from outside, by Slurm's own commands and the site's."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from lastgood.core.errors import LastgoodError, SchedulerError, UsageError
from lastgood.core.units import duration, parse_duration
from lastgood.drill.fault import Hooks, Injected, NoVictimError
from lastgood.drill.faults.nodes import check_hooks, run_hook
from lastgood.drill.slurm_job import SlurmJob
from lastgood.drill.spec import Kind, Spec
from lastgood.launch.agent_step import SRUN
from lastgood.schedulers.slurm_text import value_of

_COMMAND_LIMIT_S = 120.0
_LOOK_S = 0.05

KNOWN: dict[str, tuple[str, dict[str, str]]] = {
    "kill-rank": ("SIGKILL of one rank, on its node", {"which": "first, or the number of a rank (default: first)"}),
    "kill-launcher": (
        "SIGKILL of the launcher, on its node; requeued by hand where Slurm takes that for a failure",
        {},
    ),
    "terminate": (
        "SIGTERM to all of the job, then its requeue, as preemption does",
        {"grace": "time between the two (default: 30s)"},
    ),
    "requeue": ("`scontrol requeue`: an operator's, or a preemption without grace", {}),
    "node": ("a node goes down and comes up again", {"node": "its name (default: the job's last)"}),
}
"""Each with its options."""
MOMENTS = (Kind.STEP, Kind.TIME, Kind.AFTER)


def check(specs: Sequence[Spec], hooks: Hooks) -> None:
    """Raises UsageError for what cannot be done to a job under Slurm."""
    for spec in specs:
        if spec.name not in KNOWN:
            raise UsageError(
                f"--slurm: {spec.name} cannot be caused in a job of Slurm",
                safe="nothing was submitted",
                remedy=f"one of {', '.join(KNOWN)}; the others without --slurm",
            )
        for name in spec.options:
            if name not in KNOWN[spec.name][1]:
                raise UsageError(f"--slurm: {spec.name} has no option {name!r} there", safe="nothing was submitted")
        if spec.when is not None and spec.when.kind not in MOMENTS:
            raise UsageError(
                f"--slurm: {spec.text}: write @step=N, @time=30s or @after=10s", safe="nothing was submitted"
            )
        which = spec.options.get("which", "first")
        if which != "first" and not which.isdigit():
            raise UsageError(
                f"--slurm: {spec.text}: which=first, or the number of a rank", safe="nothing was submitted"
            )
        parse_duration(spec.options.get("grace", "30s"))
        if spec.name == "node":
            if not (hooks.node_down and hooks.node_up):
                raise UsageError(
                    "--slurm: node needs --node-down 'COMMAND {node}' and --node-up 'COMMAND {node}'",
                    safe="nothing was submitted",
                )
            check_hooks(hooks)


class SlurmFault:
    """One of them, to be done to one job."""

    def __init__(self, spec: Spec, job: SlurmJob, hooks: Hooks, look: Callable[[], object]) -> None:
        """`look` is called while a command runs: the job goes on meanwhile."""
        self._look = look
        self.spec = spec
        self._job = job
        self._hooks = hooks
        self._down = ""
        self._restarts = 0

    def inject(self) -> Injected:
        """Raises NoVictimError, or SchedulerError where Slurm refuses."""
        state = self._job.ask_now()
        if state.name != "RUNNING":
            raise NoVictimError(f"the job is {state.name}, it does not run")
        self._restarts = state.restarts
        match self.spec.name:
            case "kill-rank":
                which = self.spec.options.get("which", "first")
                return self._kill("rank", "0" if which == "first" else which)
            case "kill-launcher":
                return self._kill_launcher()
            case "terminate":
                return self._terminate(parse_duration(self.spec.options.get("grace", "30s")))
            case "requeue":
                at = time.time()
                self._job.commands.requeue(self._job.id)
                return Injected(at, f"scontrol requeue {self._job.id}")
            case _:
                return self._take_down()

    def took_effect(self, injected: Injected) -> bool:
        """False if it does not show, or not yet."""
        if self.spec.name in ("kill-rank", "kill-launcher"):
            return bool(injected.evidence["is_gone"])
        state = self._job.ask_now()
        if state.restarts > self._restarts or state.name != "RUNNING":
            return True
        return self.spec.name == "node" and self._is_down()

    def heal(self) -> None:
        """Raises LastgoodError if the node does not come up. May be called again."""
        if not self._down:
            return
        node, self._down = self._down, ""
        done = run_hook(self._hooks.node_up, node)
        if done["exit_code"] != 0:
            raise LastgoodError(
                f"--node-up for {node} failed: exit code {done['exit_code']} {done['said']}".rstrip(),
                remedy=f"bring {node} up by hand: it may still be down",
            )

    def _kill(self, kind: str, rank: str) -> Injected:
        words = [
            *SRUN[:-1],
            "--job-name=lastgood-drill",
            f"--jobid={self._job.id}",
            f"--nodelist={self._job.state.nodes}",
        ]
        cluster = value_of(self._job.commands.config(), "ClusterName")
        words += [sys.executable, "-m", "lastgood.drill.slurm_victim", self._job.id, cluster, kind, rank]
        done = _run(words, self._look)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                who = "the launcher" if kind == "launcher" else f"rank {rank}"
                what = f"SIGKILL to {who} (process {told['pid']} on {told['node']})"
                return Injected(float(told["at"]), what, (int(told["pid"]),), evidence=told)
        said = done.stderr.strip()[-300:]
        raise NoVictimError(f"no such process was found on {self._job.state.nodes}{f': {said}' if said else ''}")

    def _kill_launcher(self) -> Injected:
        """Slurm takes a job whose batch script was killed for failed: somebody has to requeue it, as is done here."""
        injected = self._kill("launcher", "")
        end = time.monotonic() + _COMMAND_LIMIT_S
        while not (state := self._job.ask_now()).is_over and state.restarts == self._restarts:
            if time.monotonic() > end:
                return injected
            self._look()
            time.sleep(_LOOK_S)
        if not state.is_over:
            return injected
        self._job.commands.requeue(self._job.id)
        while self._job.ask_now().is_over and time.monotonic() < end:
            self._look()
            time.sleep(_LOOK_S)
        what = f"{injected.what}; Slurm took the job for {state.name}, and it was requeued by hand"
        return msgspec.structs.replace(injected, what=what, evidence={**injected.evidence, "state": state.name})

    def _terminate(self, grace_s: float) -> Injected:
        """As Slurm preempts with a GraceTime: the requeue comes at the end of it, or sooner if the job has ended by then."""
        at = time.time()
        done = _run(["scancel", "--signal=TERM", "--full", self._job.id])
        if done.returncode != 0:
            raise SchedulerError(f"scancel --signal=TERM said: {done.stderr.strip()}")
        while time.time() < at + grace_s:
            state = self._job.ask_now()
            if state.name != "RUNNING" or state.restarts > self._restarts:
                return Injected(at, f"SIGTERM to all of job {self._job.id}, which ended within {duration(grace_s)}")
            self._look()
            time.sleep(_LOOK_S)
        self._job.commands.requeue(self._job.id)
        return Injected(at, f"SIGTERM to all of job {self._job.id}, and its requeue after {duration(grace_s)}")

    def _take_down(self) -> Injected:
        node = self.spec.options.get("node") or self._last_node()
        # Before it is tried: a command that fails half way may have taken the node down.
        self._down = node
        at = time.time()
        done = run_hook(self._hooks.node_down, node)
        if done["exit_code"] != 0:
            raise NoVictimError(f"--node-down for {node} failed: exit code {done['exit_code']} {done['said']}".rstrip())
        return Injected(at, f"node {node} was taken down", evidence={"node": node, "node_down": done})

    def _last_node(self) -> str:
        names = _run(["scontrol", "show", "hostnames", self._job.state.nodes]).stdout.split()
        if not names:
            raise NoVictimError("Slurm does not say on which nodes the job runs")
        return names[-1]

    def _is_down(self) -> bool:
        try:
            state = self._job.commands.node(self._down).get("State", "")
        except LastgoodError:
            return False
        return any(word in state.upper() for word in ("DOWN", "FAIL", "NOT_RESPONDING", "*"))


def _run(words: Sequence[str], look: Callable[[], object] = lambda: None) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LASTGOOD_")}
    try:
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise SchedulerError(f"cannot run {words[0]}: {error.strerror}") from None
    end = time.monotonic() + _COMMAND_LIMIT_S
    with process:
        while True:
            try:
                out, err = process.communicate(timeout=_LOOK_S)
                return subprocess.CompletedProcess(words, process.returncode, out, err)
            except subprocess.TimeoutExpired:
                look()
            if time.monotonic() > end:
                process.kill()
                raise SchedulerError(f"{words[0]} gave no answer for {duration(_COMMAND_LIMIT_S)}")
