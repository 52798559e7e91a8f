"""Out of memory: a real limit, a process that the kernel really kills, and a machine that is as before."""

from pathlib import Path

import pytest

from drill.drill_programs import REPLACED, WITH_LIBRARY, hurrying
from drill.drill_scenes import program, scene_with, target_of
from lastgood.core.errors import UsageError
from lastgood.drill import cgroups
from lastgood.drill.fault import Call, Fault, NoVictimError, make_fault
from lastgood.trial.target import Way

pytestmark = pytest.mark.slow
needs_groups = pytest.mark.skipif(bool(cgroups.missing()), reason=cgroups.missing() or "-")


@needs_groups
def test_the_kernel_kills_a_rank_and_the_launcher_sees_why(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", hurrying(WITH_LIBRARY)), "1500")
    with scene_with("out-of-memory", {}, target, Way.LASTGOOD, tmp_path) as (fault, scene):
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.saved_step or 0) >= 10, 60)
        (rank,) = scene.trial.ranks()
        injected = fault.inject(scene)
        assert fault.took_effect(scene, injected)
        assert injected.pids == (rank.pid,)
        assert injected.evidence["oom_kills"] == 1
        group = Path(injected.evidence["group"])
        assert group.is_dir()
        (scene.trial.place.work / "HURRY").touch()
        # Not healed yet: who starts again must find the memory all the same.
        assert scene.trial.finish(60) == 0
        first, second = scene.trial.records()
        ended, started = first.last("ended"), second.first("started")
        assert ended is not None and ended.data["outcome"] == "out of memory"
        assert started is not None and started.data["step"] >= 10
    assert not group.exists()


@needs_groups
def test_a_program_of_its_own_is_killed_and_resumes(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", hurrying(REPLACED)), "1500", checkpoints="ckpt.bin")
    with scene_with("out-of-memory", {"headroom": "8MiB"}, target, Way.AGAIN, tmp_path) as (fault, scene):
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.step or 0) > 12, 60)
        injected = fault.inject(scene)
        assert fault.took_effect(scene, injected)
        assert "killed rank 0" in injected.what
        (scene.trial.place.work / "HURRY").touch()
        assert scene.trial.finish(60) == 0
        assert scene.trial.exit_codes == [-9, 0]
    assert not Path(injected.evidence["group"]).exists()


@needs_groups
def test_two_of_them_share_the_group_of_the_trial_and_it_goes_with_the_last(tmp_path: Path) -> None:
    # It is ended with the second.
    target = target_of(program(tmp_path / "src", REPLACED), "3000", checkpoints="ckpt.bin")
    options = {"headroom": "8MiB"}
    with scene_with("out-of-memory", options, target, Way.AGAIN, tmp_path) as (first, scene):
        second = make_fault("out-of-memory", options)
        assert isinstance(second, Fault)
        second.prepare(scene)
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.step or 0) > 12, 60)
        injected = first.inject(scene)
        assert first.took_effect(scene, injected)
        first.take_down(scene)
        assert Path(injected.evidence["group"]).exists()
        scene.wait_until(lambda sight: not sight.is_running, 60)
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.step or 0) > 22, 60)
        assert second.took_effect(scene, second.inject(scene))
        second.heal(scene)
        scene.trial.end()
        second.take_down(scene)
    assert not Path(injected.evidence["group"]).exists()


@needs_groups
def test_it_needs_somebody_to_kill_and_leaves_no_group_if_there_is_nobody(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", REPLACED), "1")
    with scene_with("out-of-memory", {}, target, Way.AGAIN, tmp_path) as (fault, scene):
        (group,) = [Path(word).parent for word in scene.trial.words() if word.endswith("cgroup.procs")]
        assert group.is_dir()
        scene.trial.start()
        assert scene.trial.finish(60) == 0
        with pytest.raises(NoVictimError):
            fault.inject(scene)
    assert not group.exists()


def test_a_machine_without_such_groups_is_told_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroups, "parents", list)
    said = make_fault("out-of-memory", {}).missing(Call(target_of(tmp_path), Way.AGAIN))
    assert "root" in said and "Delegate=yes" in said


def test_a_headroom_that_is_no_size_is_refused() -> None:
    with pytest.raises(UsageError, match="'plenty' is not a size"):
        make_fault("out-of-memory", {"headroom": "plenty"})
