"""The descriptions that come with us, on directories as the programs leave them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.apps.described import Described
from lastgood.apps.known import adapter_for
from lastgood.core.errors import UsageError
from lastgood.core.outcome import Evidence, Outcome
from lastgood.launch.ports import Conditions, Found

TREES = Path(__file__).parent / "trees"
TRAINER = ["python", "train.py", "--output_dir", "out"]
PW = ["pw.x", "-i", "pw.in"]
CONDITIONS = Conditions(60.0)

Tree = Callable[[str], Path]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A copy of a recorded directory, which the test works in."""

    def copy(name: str) -> Path:
        place = tmp_path / "here"
        shutil.copytree(TREES / name, place)
        monkeypatch.chdir(place)
        return place

    return copy


def chosen(adapter: Described) -> tuple[Found | None, dict[str, str]]:
    """The newest whole checkpoint, and why newer ones are not used, as the launcher finds them."""
    rejected = {}
    for found in adapter.candidates():
        if not (problem := found.problem or adapter.problem_of(found)):
            return found, rejected
        rejected[found.path] = problem
    return None, rejected


def test_a_trainers_newest_checkpoint_without_optimizer_is_passed_over(tree: Tree) -> None:
    tree("transformers-trainer/without-optimizer")
    adapter = adapter_for("transformers-trainer", TRAINER)
    found, rejected = chosen(adapter)
    assert found is not None and (found.path, found.step) == ("out/checkpoint-400", 400)
    assert list(rejected) == ["out/checkpoint-500"] and "it lacks optimizer.pt" in rejected["out/checkpoint-500"]
    command = adapter.plan(found, CONDITIONS).order.command
    assert command == [*TRAINER, "--resume_from_checkpoint", "out/checkpoint-400"]
    work = adapter.work()
    assert work is not None and (work.done, work.total, work.is_done) == (400, 2000, False)


def test_a_shard_that_the_index_lists_must_be_there(tree: Tree) -> None:
    tree("transformers-trainer/without-a-shard")
    found, rejected = chosen(adapter_for("transformers-trainer", TRAINER))
    assert found is not None and found.step == 90
    assert "model-00002-of-00003.safetensors is missing" in rejected["out/checkpoint-100"]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("damage", [cut, empty, Path.unlink], ids=["cut", "empty", "gone"])
@pytest.mark.parametrize(
    "name",
    ["trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "model.safetensors"],
)
def test_each_file_of_a_trainers_checkpoint_must_be_whole(
    tree: Tree, name: str, damage: Callable[[Path], None]
) -> None:
    place = tree("transformers-trainer/done")
    damage(place / "out" / "checkpoint-200" / name)
    found, rejected = chosen(adapter_for("transformers-trainer", TRAINER))
    assert found is not None and found.step == 100
    assert name in rejected["out/checkpoint-200"]


def test_a_directory_that_is_still_written_is_no_checkpoint(tree: Tree) -> None:
    tree("transformers-trainer/done")
    adapter = adapter_for("transformers-trainer", TRAINER)
    assert [found.step for found in adapter.candidates()] == [200, 100]
    work = adapter.work()
    assert work is not None and work.is_done


def test_a_trainer_that_stopped_early_is_done_by_its_words_and_its_code(tree: Tree) -> None:
    tree("transformers-trainer/without-optimizer")
    adapter = adapter_for("transformers-trainer", TRAINER)
    said = "{'train_runtime': 12.5, 'epoch': 4.0}\n"
    ending = adapter.explain_end(Evidence(exit_code=0, log_tail=said))
    assert ending is not None and ending.outcome is Outcome.FINISHED
    silent = adapter.explain_end(Evidence(exit_code=0, log_tail="bye\n"))
    assert silent is not None and silent.outcome is Outcome.PROGRAM_ERROR
    failed = adapter.explain_end(Evidence(exit_code=1, log_tail=said))
    assert failed is None


def test_what_is_put_aside_is_not_counted_by_the_trainer_nor_by_us(tree: Tree) -> None:
    place = tree("transformers-trainer/without-optimizer")
    adapter = adapter_for("transformers-trainer", TRAINER)
    aside = adapter.put_aside(adapter.candidates()[:1], "attempt-2")
    assert aside == ["out/aside-checkpoint-500.attempt-2"] and (place / aside[0]).is_dir()
    assert [found.step for found in adapter.candidates()] == [400, 300]
    assert sorted(path.name for path in (place / "out").glob("checkpoint-*")) == ["checkpoint-300", "checkpoint-400"]


def test_without_an_output_directory_the_trainers_checkpoints_are_nowhere() -> None:
    with pytest.raises(UsageError, match="the command has no --output_dir"):
        adapter_for("transformers-trainer", ["python", "train.py"])


def test_dynamics_go_on_with_the_steps_that_are_left(tree: Tree) -> None:
    place = tree("quantum-espresso/stopped-md")
    before = (place / "pw.in").read_bytes()
    adapter = adapter_for("quantum-espresso", PW)
    found, rejected = chosen(adapter)
    assert found is not None and found.step == 6 and not rejected
    order = adapter.order(found, CONDITIONS)
    assert order.command == ["pw.x", "-i", "pw.in.lastgood-resume"]
    text = (place / "pw.in.lastgood-resume").read_text()
    assert "nstep = 144," in text and "restart_mode = 'restart'" in text and "from_scratch" not in text
    assert (place / "pw.in").read_bytes() == before
    assert not (place / "h2.EXIT").exists()


def test_an_input_without_restart_mode_gets_one(tree: Tree) -> None:
    place = tree("quantum-espresso/stopped-scf")
    (place / "pw.in").write_text("&CONTROL\n  prefix = 'h2', outdir = './tmp'\n/\n")
    adapter = adapter_for("quantum-espresso", PW)
    found, _ = chosen(adapter)
    adapter.order(found, CONDITIONS)
    assert (place / "pw.in.lastgood-resume").read_text().startswith("&CONTROL\nrestart_mode = 'restart'\n")


def test_self_consistency_is_done_when_it_has_converged_and_only_then(tree: Tree) -> None:
    place = tree("quantum-espresso/done-scf")
    work = adapter_for("quantum-espresso", PW).work()
    assert work is not None and work.is_done and work.total is None
    xml = place / "tmp" / "h2.xml"
    xml.write_text(xml.read_text().replace(">true<", ">false<"))
    work = adapter_for("quantum-espresso", PW).work()
    assert work is not None and not work.is_done


def test_results_of_an_earlier_run_do_not_prove_that_a_new_one_is_done(tree: Tree) -> None:
    place = tree("quantum-espresso/done-scf")
    adapter = adapter_for("quantum-espresso", PW)
    adapter.put_aside(adapter.candidates(), "attempt-1")
    adapter.order(None, CONDITIONS)
    for again in (adapter, adapter_for("quantum-espresso", PW)):
        work = again.work()
        assert work is None or not work.is_done
    (place / "tmp" / "aside-h2.save.attempt-1").rename(place / "tmp" / "h2.save")
    xml = place / "tmp" / "h2.xml"
    os.utime(xml, ns=(0, xml.stat().st_mtime_ns + 1))
    work = adapter.work()
    assert work is not None and work.is_done


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("data-file-schema.xml", cut, "does not end as it should"),
        ("charge-density.dat", Path.unlink, "it lacks charge-density.dat"),
    ],
)
def test_an_incomplete_save_is_not_restarted_from(
    tree: Tree, name: str, damage: Callable[[Path], None], words: str
) -> None:
    place = tree("quantum-espresso/stopped-scf")
    damage(place / "tmp" / "h2.save" / name)
    found, rejected = chosen(adapter_for("quantum-espresso", PW))
    assert found is None and words in rejected["./tmp/h2.save"]


@pytest.mark.parametrize(
    ("said", "code", "outcome"),
    [
        ("     Program stopped by user request\n   JOB DONE.\n", 2, Outcome.PREEMPTED),
        ("     Maximum CPU time exceeded\n   JOB DONE.\n", 2, Outcome.TIME_LIMIT),
        ("     Error in routine davcio (10):\n     error reading file\n", 1, Outcome.PROGRAM_ERROR),
        ("   JOB DONE.\n", 0, Outcome.PROGRAM_ERROR),
    ],
)
def test_job_done_proves_nothing(tree: Tree, said: str, code: int, outcome: Outcome) -> None:
    tree("quantum-espresso/stopped-scf")
    ending = adapter_for("quantum-espresso", PW).explain_end(Evidence(exit_code=code, log_tail=said))
    assert ending is not None and ending.outcome is outcome


def test_dynamics_without_a_number_of_steps_are_refused(tree: Tree) -> None:
    place = tree("quantum-espresso/stopped-md")
    (place / "pw.in").write_text("&control\n calculation = 'md', prefix = 'h2', outdir = './tmp'\n/\n")
    with pytest.raises(UsageError, match="nstep counts anew"):
        adapter_for("quantum-espresso", PW)


def test_a_command_that_is_not_pw_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the command runs no pw\.x"):
        adapter_for("quantum-espresso", ["ph.x", "-i", "pw.in"])
