"""Loading: what must fit between a checkpoint and a program; and new starts that are meant only once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import ConfigChangedError, LastgoodError, StateMismatchError
from lastgood.store.attempts import attempt_numbers, claim_attempt, read_attempt
from lastgood.store.jobdir import open_job

Start = Callable[..., lastgood.Run]


def work(start: Start, total: int, **settings: Any) -> np.ndarray:
    x = np.zeros(4)
    run = start({"x": x}, **settings)
    for step in run.steps(total):
        x += step
    run.close()
    return x


def test_a_program_started_twice_in_a_fresh_attempt_goes_on(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(start, 5)
    job = open_job(path)
    attempt = claim_attempt(job, "token", fresh=True).attempt
    monkeypatch.setenv("LASTGOOD_ATTEMPT", str(attempt))
    monkeypatch.setenv("LASTGOOD_LAUNCH", "token")
    monkeypatch.setenv("LASTGOOD_FRESH", "1")
    assert work(start, 2)[0] == 3
    assert work(start, 3)[0] == 6, "torchrun's restart inside the attempt must not begin anew"
    assert attempt_numbers(job)[-1] == attempt + 1
    second = read_attempt(job, attempt + 1)
    assert second is not None
    assert (second.launch, second.fresh) == ("token", False)


def test_restarted_by_torchrun_a_program_that_says_fresh_goes_on(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    work(start, 2, fresh=True)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert work(start, 3, fresh=True)[0] == 6


def test_what_this_program_cannot_decode_is_not_called_damaged(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(start, 2)
    with monkeypatch.context() as patch:
        patch.setattr("lastgood.core.dtypes.TO_NUMPY", {})
        patch.setattr("lastgood.frameworks.numpy_adapter.TO_NUMPY", {})
        with pytest.raises(StateMismatchError, match="passes its checks, but this program cannot decode it"):
            start({"x": np.zeros(4)})
    assert start({"x": np.zeros(4)}).step == 2


def test_changed_settings_are_all_shown_and_refused_unless_allowed(start: Start) -> None:
    work(start, 1, config={"lr": 0.1, "layers": [1, 2], "name": "a"})
    with pytest.raises(ConfigChangedError) as changed:
        start({"x": np.zeros(4)}, config={"lr": 0.2, "layers": [1, 2], "depth": 3})
    for text in ("lr: 0.1 in the checkpoint, 0.2 now", "depth: absent in", "name: 'a' in the checkpoint, absent now"):
        assert text in changed.value.what
    assert "'depth', 'lr', 'name'" in changed.value.remedy
    with pytest.raises(ConfigChangedError):
        start({"x": np.zeros(4)}, config={"lr": 0.2, "layers": [1, 2], "name": "a"}, allow_config_change=["name"])
    run = start({"x": np.zeros(4)}, config={"lr": 0.2, "layers": [1, 2], "name": "a"}, allow_config_change=["lr"])
    assert run.step == 1


@pytest.mark.parametrize("config", [{"w": np.zeros(3)}, {3: 1}, {"f": print}])
def test_settings_that_could_not_be_compared_are_refused(start: Start, config: Any) -> None:
    with pytest.raises(LastgoodError, match="config"):
        start(config=config)


def test_differences_are_listed_twenty_at_most_and_nothing_is_loaded(start: Start) -> None:
    state = {f"a{i}": np.zeros(2) for i in range(30)}
    run = start(state)
    for _ in run.steps(1):
        state["a0"][:] = 9
    run.close()
    changed = {f"a{i}": np.zeros(3) for i in range(1, 30)} | {"new": np.zeros(1), "a0": np.zeros(2)}
    with pytest.raises(StateMismatchError) as mismatch:
        start(changed)
    lines = mismatch.value.what.split("\n")
    assert len(lines) == 22
    assert "new is missing in the checkpoint" in lines[1]
    assert lines[-1].strip() == "... and 10 more"
    assert changed["a0"].tolist() == [0, 0]
