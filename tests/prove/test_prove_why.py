"""What a proof says of the reason: by what checkpoints hold, what the source says, and where a difference begins."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import prove_loops as loops
import pytest

from lastgood.prove.contents import OPTIMIZER, POSITION, RANDOM, SCHEDULE, Contents, contents_of
from lastgood.prove.library_state import causes_of, held_by
from lastgood.prove.onset import onset_of, repeated_stretch
from lastgood.prove.program import read_program


def saved(path: Path, **state: object) -> Path:
    np.savez(path, **state)
    return path


def test_the_names_in_an_npz_file_tell_what_it_holds(tmp_path: Path):
    held = contents_of(saved(tmp_path / "a.npz", w=1, velocity=2, rng_state=3), "a.npz")
    assert held.words == ("w", "velocity", "rng_state")
    assert held.holds(OPTIMIZER)
    assert held.holds(RANDOM)
    assert not held.holds(POSITION)


def test_a_pickle_is_read_and_never_run(tmp_path: Path):
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (print, ("ran",))

    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps({"sampler": {"position": 3}, "evil": Evil()}))
    held = contents_of(path, "a.pkl")
    assert held.is_readable
    assert held.holds(POSITION)
    assert not held.holds(OPTIMIZER)


def test_an_archive_of_torch_is_read_by_the_names_in_its_pickle(tmp_path: Path):
    path = tmp_path / "last.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "last/data.pkl", pickle.dumps({"model": {"0.weight": 1}, "optimizer": {"state": {0: "exp_avg"}}})
        )
        archive.writestr("last/data/0", b"\0" * 64)
    held = contents_of(path, "last.pt")
    assert held.holds(OPTIMIZER)
    assert not held.holds(RANDOM)


def test_counters_of_batch_normalisation_are_no_position_in_the_data(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"model": {"1.num_batches_tracked": 4, "1.weight": 2}}))
    assert not contents_of(path, "a.json").holds(POSITION)


def test_a_path_among_the_texts_of_a_pickle_is_no_name():
    named = Contents("x", ("/scratch/random-order/optimizer.pt", "w"), True)
    assert not named.holds(RANDOM) and not named.holds(OPTIMIZER)


def test_a_directory_holds_what_its_files_hold_and_are_called(tmp_path: Path):
    saved(tmp_path / "model.npz", w=1)
    (tmp_path / "rng_state.pth").write_bytes(b"?")
    (tmp_path / "trainer.json").write_text('{"scheduler": {"last_epoch": 3}}')
    held = contents_of(tmp_path, "checkpoint-5")
    assert held.holds(RANDOM)
    assert held.holds(SCHEDULE)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04torn", b"\x80\x04torn", b"{torn", b"\0" * 100])
def test_a_file_that_is_damaged_or_of_no_known_kind_says_nothing(tmp_path: Path, data: bytes):
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    assert not contents_of(path, "a.bin").is_readable


def test_the_source_tells_which_objects_with_state_are_saved_by_nothing():
    program = read_program(loops.NO_RANDOM_STATE, "train.py")
    assert program is not None
    assert [str(one) for one in program.unsaved] == ["`rng` (np.random.default_rng, line 8)"]
    assert program.uses_optimizer
    assert program.draws
    assert any("permutation" in text for text in program.shuffles)


def test_objects_that_are_saved_by_way_of_a_dictionary_count_as_saved():
    source = """
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
state = {"optimizer": optimizer.state_dict()}
state["schedule"] = schedule.state_dict()
torch.save(state, "last.pt")
"""
    program = read_program(source, "train.py")
    assert program is not None
    assert program.unsaved == ()


def test_what_is_no_python_is_no_program():
    assert read_program("#!/bin/sh\nif true; then echo; fi", "run.sh") is None


def library_job(tmp_path: Path, source: str) -> Path:
    (tmp_path / "train.py").write_text(source)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True, timeout=120)
    return tmp_path / "job"


LIBRARY = """
import numpy as np, lastgood
w, velocity = np.zeros(4), np.zeros(4)
rng = np.random.default_rng(1)
run = lastgood.Run({GIVEN}, job="job", every=2, random=RANDOM)
order = rng.permutation(4)
for step in run.steps(4):
    w += rng.normal(size=4)
"""


@pytest.mark.slow
def test_a_library_job_that_leaves_things_out_is_told_which(tmp_path: Path):
    source = LIBRARY.replace("{GIVEN}", '{"w": w}').replace("RANDOM", "False")
    held = held_by(library_job(tmp_path, source))
    assert held is not None
    assert held.own.words == ("w",)
    names = [cause.name for cause in causes_of(held, read_program(source, "train.py"), is_at_once=True)]
    assert names == [
        "the optimizer is not in the checkpoint",
        "no random state in the checkpoint",
        "the data begins again: its position is not in the checkpoint",
    ]


@pytest.mark.slow
def test_a_library_job_that_gives_all_is_told_nothing(tmp_path: Path):
    source = LIBRARY.replace("{GIVEN}", '{"w": w, "velocity": velocity, "rng": rng}').replace("RANDOM", "True")
    source = source.replace("order = rng.permutation(4)\n", "")
    held = held_by(library_job(tmp_path, source))
    assert held is not None
    assert list(causes_of(held, read_program(source, "train.py"), is_at_once=True)) == []


def test_a_job_that_cannot_be_read_says_nothing(tmp_path: Path):
    assert held_by(tmp_path) is None


LEFT = {step: {"loss": f"0.{step}"} for step in range(1, 21)}


def test_a_difference_at_the_first_step_after_the_resume_points_to_what_that_step_uses():
    onset = onset_of(LEFT, {**LEFT, 11: {"loss": "9"}}, 10)
    assert onset is not None
    assert (onset.step, onset.place) == (11, 0)
    assert "random state" in str(onset)


def test_a_difference_at_the_second_points_to_the_update():
    onset = onset_of(LEFT, {**LEFT, 12: {"loss": "9"}}, 10)
    assert onset is not None
    assert "optimizer" in str(onset)


def test_a_later_difference_points_to_what_acts_later():
    onset = onset_of(LEFT, {**LEFT, 17: {"loss": "9"}}, 10)
    assert onset is not None
    assert str(onset).startswith("6 steps after the resume are equal")


def test_equal_series_have_no_onset():
    assert onset_of(LEFT, dict(LEFT), 10) is None


def test_values_that_are_those_of_an_earlier_stretch_show_that_the_data_began_again():
    rows = [7, 3, 9, 1, 5, 2, 8, 4, 6, 0, 11, 13]
    left = {step: {"row": str(row)} for step, row in enumerate(rows, 1)}
    right = {**left, **{6 + i: {"row": str(row)} for i, row in enumerate(rows[:6], 1)}}
    assert (
        repeated_stretch(left, right, 6)
        == "row after the resume (from step 7) is what the undisturbed run had from step 1 on"
    )
    assert repeated_stretch(left, left, 6) == ""


def test_values_that_never_change_show_nothing():
    left = {step: {"lr": "0.1"} for step in range(1, 20)}
    assert repeated_stretch(left, left, 6) == ""


def test_reading_names_of_a_large_pickle_takes_the_first_of_them(tmp_path: Path):
    stream = io.BytesIO()
    pickle.dump({f"name{i}": i for i in range(30_000)}, stream)
    path = tmp_path / "a.pkl"
    path.write_bytes(stream.getvalue())
    assert len(contents_of(path, "a.pkl").words) == 20_000
