"""What the benchmarks compute from the times that they take."""

import doctest
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("name", ["measures", "table"])
def test_examples_in_docstrings_hold(name: str) -> None:
    found = doctest.testmod(load(name))
    assert found.attempted > 0
    assert found.failed == 0


def tops(durations: list[float]) -> list[float]:
    found = [0.0]
    for seconds in durations:
        found.append(found[-1] + seconds)
    return found


def test_a_stall_counts_the_step_that_saves_and_the_three_after_it_but_not_the_fifth() -> None:
    durations = [1.0] * 30
    durations[9], durations[10], durations[12] = 1.5, 1.2, 1.1
    durations[13] = 9.0
    durations[19] = 1.3
    found = load("measures").stalls(tops(durations), every=10)
    assert found.step_s == pytest.approx(1.0)
    assert found.saves == pytest.approx([0.8, 0.3])


def test_a_save_whose_window_is_cut_off_by_the_end_is_not_counted() -> None:
    measures = load("measures")
    assert len(measures.stalls(tops([1.0] * 23), every=10).saves) == 2
    assert len(measures.stalls(tops([1.0] * 22), every=10).saves) == 1


def test_slow_first_steps_do_not_make_a_stall_look_small() -> None:
    durations = [5.0, 5.0, *[1.0] * 20]
    durations[9] = 2.0
    assert load("measures").stalls(tops(durations), every=10).saves == pytest.approx([1.0, 0.0][:1])


def test_a_stretch_holds_whole_intervals_and_starts_after_the_first_save() -> None:
    durations = [1.0] * 60
    durations[9] = 100.0
    for step in (20, 30):
        durations[step - 1] = 1.5
    assert load("measures").stretch_s(tops(durations), every=10, saves=2) == pytest.approx(21.0)


def test_extra_memory_is_what_comes_on_top_of_the_last_sample_before() -> None:
    extra_bytes = load("measures").extra_bytes
    assert extra_bytes([(0.0, 500), (1.0, 100), (2.0, 400), (3.0, 300)], ready=1.5) == 300
    assert extra_bytes([(2.0, 400)], ready=1.5) == 0


def test_goals_are_held_against_the_best_peer_and_ours_is_no_peer() -> None:
    goals = load("goals")
    later = {"lastgood": [0.4], "lastgood-overlap": [0.1], "dcp": [1.0], "safetensors": [0.8], "torch-save": [0.6]}
    found = {v.what: v for v in goals.of_durable("arrays", later, {"raw, 1": [0.5], "raw, 2": [0.3], "fio": []})}
    assert found["arrays: durable / dcp"] == ("arrays: durable / dcp", 0.4, "at most 0.35", False)
    assert found["arrays: durable / safetensors"].is_met
    assert found["arrays: rate until durable / raw, 2"].measured == pytest.approx(0.75)


def test_a_stall_is_compared_with_those_that_copy_at_once_and_with_the_best_of_all() -> None:
    goals = load("goals")
    steady = {"lastgood": [0.2], "lastgood-overlap": [0.02], "a": [0.25, 0.3, 0.2], "b": [0.1], "c": [0.4]}
    found = {v.what: v for v in goals.of_stall("arrays", steady, steady, {"lastgood-overlap", "b"}, 0.16)}
    assert found["arrays: stall / a, the best that copies at once"].measured == pytest.approx(0.8)
    assert found["arrays: stall / b, the best peer"].measured == pytest.approx(2.0)
    assert not found["arrays: stall / b, the best peer"].is_met
    assert found["arrays: overlapped stall / b, the best peer"].is_met
    assert found["arrays: rate of the stall / memcpy"].measured == pytest.approx(0.8)


def test_every_contender_is_known_and_has_a_name_for_people() -> None:
    pytest.importorskip("torch")
    registry = load("peers.registry")
    save, recover = load("save"), load("recover")
    assert {*save.SAVING, *recover.LOADING, "none", "none-jax"} == set(registry.NAMES)
    titles = {}
    for name in registry.NAMES:
        kind = registry.contender(name)
        assert kind.title
        assert kind.load_title or name not in recover.LOADING
        titles.setdefault(kind.title if name in save.SAVING else f"({name})", name)
    assert len(titles) == len(registry.NAMES)
    assert "jax" not in sys.modules, "a peer's library is loaded only where the peer is measured"


def test_a_slowdown_within_the_noise_is_neither_met_nor_missed() -> None:
    goals = load("goals")
    noisy = {"lastgood": [6.0, -25.0, 25.0], "lastgood-overlap": [1.0, 2.0, 3.0], "peer": [8.0, 9.0, 18.0]}
    first, second = goals.of_slowdown("transformer", noisy)
    assert first.is_met is None
    assert second.is_met
    assert "not told" in goals.shown([first])
