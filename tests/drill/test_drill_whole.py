"""A whole drill: what each of its parts has of its own."""

from pathlib import Path

import pytest

from lastgood.drill.boundaries import KillAtEveryOperation
from lastgood.drill.fault import Answer, Call, Stage, Tried
from lastgood.drill.spec import parse_spec
from lastgood.drill.whole import Request, run_drill
from lastgood.trial.target import Target, Way


def test_two_campaigns_of_a_kind_have_a_directory_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots: list[Path] = []

    def run(self: KillAtEveryOperation, stage: Stage) -> list[Tried]:
        roots.append(stage.root)
        return [Tried("a kill", Answer.PASS, "it resumed")]

    monkeypatch.setattr(KillAtEveryOperation, "run", run)
    specs = tuple(parse_spec(f"kill-at-every-operation,seen-by={eye}") for eye in ("files", "strace"))
    call = Call(Target(("true",), tmp_path), Way.AGAIN)
    drilled = run_drill(Request(call, specs, tmp_path, is_quick=True), lambda _: None)
    assert len(drilled.tried) == 2
    assert len(set(roots)) == 2 and all(root.is_dir() for root in roots)
