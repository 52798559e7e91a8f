"""The site's own commands for a node: each is run once, and what is wrong with one is said before a node is down."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drill.drill_scenes import target_of
from drill.drills import HERE, drill
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.drill import slurm_faults
from lastgood.drill.fault import Call, Fault, Hooks, Scene, make_fault
from lastgood.drill.spec import parse_spec
from lastgood.trial.target import Way


def node_fault(name: str = "n7") -> Fault:
    fault = make_fault("node", {"node": name})
    assert isinstance(fault, Fault)
    return fault


def scene(hooks: Hooks) -> Scene:
    running: Any = SimpleNamespace(is_running=True, step=3, saved_step=None)
    return cast("Scene", SimpleNamespace(look=lambda: running, hooks=hooks))


def noting(path: Path, code: int) -> str:
    return f"""sh -c 'echo {{node}} >> {path}; exit {code}'"""


def test_a_node_whose_command_fails_is_brought_up_once(tmp_path: Path) -> None:
    here = scene(Hooks(noting(tmp_path / "down", 1), noting(tmp_path / "up", 0)))
    fault = node_fault()
    for _ in range(3):
        with pytest.raises(LastgoodError, match="--node-down for n7 failed: exit code 1"):
            fault.inject(here)
    fault.heal(here)
    fault.heal(here)
    assert (tmp_path / "up").read_text() == "n7\n"


def test_one_node_that_does_not_come_up_keeps_no_other_down(tmp_path: Path) -> None:
    fails_for_a = f"""sh -c 'echo {{node}} >> {tmp_path}/up; [ {{node}} != a ]'"""
    here, fault = scene(Hooks("true", fails_for_a)), node_fault("")
    for name in ("a", "b"):
        fault._given = name
        fault.inject(here)
    with pytest.raises(LastgoodError, match="--node-up for a failed"):
        fault.heal(here)
    assert sorted((tmp_path / "up").read_text().split()) == ["a", "b"]


@pytest.mark.parametrize(
    ("down", "up", "said"),
    [
        ("ipmi off {node}", "ipmi 'on {node}", "--node-up ipmi 'on {node}: No closing quotation"),
        ("ipmi 'off {node}", "ipmi on {node}", "--node-down ipmi 'off {node}: No closing quotation"),
        ("ipmi off {node}", "  ", "--node-up '  ' names no command"),
    ],
)
def test_a_command_that_is_mistyped_is_refused_before_anything_starts(
    tmp_path: Path, down: str, up: str, said: str
) -> None:
    hooks = Hooks(down, up)
    with pytest.raises(UsageError) as first:
        node_fault().missing(Call(target_of(tmp_path), Way.AGAIN, hooks))
    with pytest.raises(UsageError) as second:
        slurm_faults.check([parse_spec("node")], hooks)
    assert (first.value.what, second.value.what) == (said, said)


@pytest.mark.slow
def test_a_command_that_fails_is_not_given_again_and_again(tmp_path: Path) -> None:
    done = drill(
        HERE / "counting.py", tmp_path, "--quick", "--fault", "node,node=n7@step=20",
        "--node-down", noting(tmp_path / "down", 1), "--node-up", noting(tmp_path / "up", 0),
        "--", sys.executable, "counting.py", 60,
    )  # fmt: skip
    assert (done.code, done.answer.verdict) == (3, "unknown")
    assert "--node-down for n7 failed: exit code 1" in done.answer.reason
    assert (tmp_path / "down").read_text() == (tmp_path / "up").read_text() == "n7\n"
