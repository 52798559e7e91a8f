"""Which of a program's files are its checkpoints, and which of them counts as the newest."""

import pytest

from lastgood.prove.checkpoint_files import Units, are_steps, guess, numbered_part, saves_of
from lastgood.prove.watching import Written


def written(at: float, path: str, *, size: int = 100, inode: int = 1, step: int | None = None) -> Written:
    return Written(at, at - 0.02, 1, path, size, step, step, inode)


def test_files_that_are_written_again_or_under_other_numbers_are_checkpoints_and_results_at_the_end_are_not():
    files = [written(t, f"out/step_{t:02.0f}.pt") for t in (1, 2, 3)] + [written(9.9, "final.pt")]
    assert guess(files, 9.5).kinds == ("out/step_#.pt",)


def test_logs_are_no_checkpoints_however_often_they_are_written():
    files = [written(t, name) for t in (1, 2, 3) for name in ("train.log", "metrics.csv", "runs/events.out.tfevents.1")]
    assert guess(files, 9.5).kinds == ()


def test_a_table_of_metrics_is_no_checkpoint_beside_files_of_state():
    files = [written(t, name) for t in (1, 2, 3) for name in ("metrics.json", "last.pt")]
    assert guess(files, 9.5).kinds == ("last.pt",)
    assert guess([file for file in files if file.path == "metrics.json"], 9.5).kinds == ("metrics.json",)


def test_the_other_files_of_a_directory_with_state_belong_to_it():
    names = ("model.safetensors", "trainer_state.json")
    files = [written(t, f"out/checkpoint-{t * 5:.0f}/{name}") for t in (1, 2) for name in names]
    units = guess(files, 9.5)
    assert {units.unit_of(file.path) for file in files} == {"out/checkpoint-5", "out/checkpoint-10"}
    assert [save.path for save in saves_of(files, units, 0.0)] == ["out/checkpoint-5", "out/checkpoint-10"]


def test_a_file_that_is_seen_while_it_grows_is_one_checkpoint():
    files = [written(1.0 + i * 0.02, "last.pt", size=100 * i + 1) for i in range(5)] + [written(3.0, "last.pt")]
    assert [round(save.at_s, 2) for save in saves_of(files, Units(("last.pt",)), 0.0)] == [1.08, 3.0]


def test_a_small_file_that_is_written_anew_at_once_is_another_checkpoint():
    files = [written(1.0, "last.pt", inode=1), written(1.04, "last.pt", inode=2), written(1.08, "last.pt", inode=1)]
    assert len(saves_of(files, Units(("last.pt",)), 0.0)) == 3


def test_steps_are_taken_from_names_that_count_steps():
    files = [written(t, f"out/step_{t * 100:.0f}.pt", step=7) for t in (1, 2)]
    units = Units(("out/step_#.pt",), are_numbered_by_step=True)
    assert [save.step for save in saves_of(files, units, 0.0)] == [100, 200]


@pytest.mark.parametrize(
    ("paths", "last_step", "is_so"),
    [
        (["s_10.pt", "s_20.pt"], 25, True),
        (["epoch_1.pt", "epoch_2.pt"], 250, False),
        (["last.pt"], 25, False),
        (["s_10.pt", "s_20.pt"], None, False),
        (["s_20.pt", "s_10.pt"], 25, False),
    ],
)
def test_names_of_epochs_are_not_taken_for_steps(paths: list[str], last_step: int | None, is_so: bool):
    assert are_steps(paths, last_step) is is_so


def test_a_checkpoint_is_named_up_to_its_number():
    assert numbered_part("out/checkpoint-500/optimizer.pt") == "out/checkpoint-500"
    assert numbered_part("out/last/optimizer.pt") == "out/last/optimizer.pt"
