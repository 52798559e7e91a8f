"""What a program is told from outside: by the launcher, by torchrun, by the scheduler. Read once."""

import os
from collections.abc import Mapping

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.layout import Env
from lastgood.core.reliability import Mtti, preset_mtti
from lastgood.core.start import Expectation
from lastgood.core.units import parse_duration
from lastgood.keeper.node import agent_file, this_node
from lastgood.keeper.starting import DEFAULT_LINGER_S, linger_s, may_use_keeper

_RESTART_COUNTS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")
"""Variables that count restarts from 0. (Slurm sets its own only from the first restart on.)"""

_LOCAL_RANK_COUNTS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""Variables that say how many ranks run on this node: torchrun's, Open MPI's, MPICH's."""

_NODE_COUNTS = ("SLURM_JOB_NUM_NODES", "GROUP_WORLD_SIZE")
"""Variables that say on how many nodes the job runs: Slurm's, and torchrun's number of its agents."""


class Surroundings(msgspec.Struct, frozen=True):
    job: str | None = None
    attempt: int | None = None
    launch: str = ""
    launcher_pid: int | None = None
    launcher_node: str = ""
    node: str = ""
    """This node. Empty where nodes have no names, as outside of Slurm; the same for the launcher's."""
    heartbeats: str | None = None
    deadline: float | None = None
    """End of the allocation in seconds since 1970."""
    is_fresh_meant: bool = False
    expect_step: int | None = None
    restarts: dict[str, int] = {}
    mtti: Mtti = preset_mtti()
    """How often the job is interrupted: stated, or a preset for its number of nodes."""
    is_mtti_stated: bool = False
    may_use_keeper: bool = True
    linger_s: float = DEFAULT_LINGER_S
    """How long the keeper stays after a death of the job, for the next attempt."""
    local_ranks: int = 1

    @property
    def is_launched(self) -> bool:
        return self.attempt is not None

    @property
    def is_launcher_here(self) -> bool:
        """The launcher runs on this node: it has this name, and its directory of heartbeats is visible."""
        return (
            self.is_launched
            and self.node == self.launcher_node
            and (self.heartbeats is None or os.path.isdir(self.heartbeats))
        )

    @property
    def is_keeper_held(self) -> bool:
        """The launcher, or its agent on this node, holds the keeper, and nobody else starts one."""
        has_agent = self.heartbeats is not None and os.path.exists(os.path.join(self.heartbeats, agent_file(self.node)))
        return self.is_launched and (self.is_launcher_here or has_agent)

    def expectations(self) -> list[Expectation]:
        """Signs that this job has run before."""
        found = [Expectation(f"{name}={count}") for name, count in self.restarts.items() if count > 0]
        if self.expect_step is not None:
            found.insert(0, Expectation("the launcher", self.expect_step))
        return found


def read_surroundings(environment: Mapping[str, str] = os.environ) -> Surroundings:
    """Raises UsageError for a variable of ours that does not hold what it should."""
    return Surroundings(
        job=environment.get(Env.JOB) or None,
        attempt=_number(environment, Env.ATTEMPT),
        launch=environment.get(Env.LAUNCH, ""),
        launcher_pid=_number(environment, Env.LAUNCHER_PID),
        launcher_node=environment.get(Env.LAUNCHER_NODE, ""),
        node=this_node(environment),
        heartbeats=environment.get(Env.HEARTBEATS) or None,
        deadline=_deadline(environment),
        is_fresh_meant=environment.get(Env.FRESH, "") not in ("", "0"),
        expect_step=_number(environment, Env.EXPECT_STEP),
        mtti=_mtti(environment),
        is_mtti_stated=bool(environment.get(Env.MTTI)),
        may_use_keeper=may_use_keeper(environment),
        linger_s=linger_s(environment),
        local_ranks=max(
            (int(v) for name in _LOCAL_RANK_COUNTS if (v := environment.get(name, "")).isdigit()), default=1
        ),
        restarts={name: int(v) for name in _RESTART_COUNTS if (v := environment.get(name, "")).isdigit()},
    )


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    if not text:
        return None
    if not text.isdigit():
        raise UsageError(f"the environment variable {name} is {text!r}, not a number", remedy=f"unset {name}")
    return int(text)


def parse_mtti(text: str, source: str) -> Mtti:
    """`source` says where the text is from. Raises UsageError for what is no duration, or none at all."""
    try:
        seconds = parse_duration(text)
    except UsageError as problem:
        raise UsageError(f"{source}: {problem.what}", remedy=problem.remedy) from None
    if not seconds > 0:
        raise UsageError(f"{source}: a mean time to interruption of {text!r}")
    return Mtti(seconds, source)


def _mtti(environment: Mapping[str, str]) -> Mtti:
    if text := environment.get(Env.MTTI):
        return parse_mtti(text, Env.MTTI)
    nodes = [int(v) for name in _NODE_COUNTS if (v := environment.get(name, "")).isdigit()]
    return preset_mtti(max(nodes, default=1) or 1)


def _deadline(environment: Mapping[str, str]) -> float | None:
    # Slurm's own variable serves programs that were started without our launcher.
    for name in (Env.DEADLINE, "SLURM_JOB_END_TIME"):
        text = environment.get(name, "")
        if text:
            try:
                return float(text)
            except ValueError:
                if name == Env.DEADLINE:
                    raise UsageError(f"{name} is {text!r}, not a time in seconds since 1970") from None
    return None
