"""`lastgood app`: what a description finds, and what is possible without any checkpoint."""

import os
import shutil
from pathlib import Path

import pytest

from lastgood.apps.known import names

TREES = Path(__file__).parents[1] / "apps" / "trees"
TRAINER = ("--", "python", "train.py", "--output_dir", "out")


@pytest.fixture
def place(tmp_path):
    return Path(shutil.copytree(TREES / "transformers-trainer" / "without-optimizer", tmp_path / "here"))


def everything_below(place):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in place.rglob("*")}


def test_the_list_has_every_name_that_run_takes(lastgood):
    answer = lastgood("app", "list", "--json").answer("app list")
    assert [app.name for app in answer.applications] == names()
    assert all(app.summary for app in answer.applications)
    text = lastgood("app", "list")
    assert text.code == 0 and all(name in text.out for name in names())


def test_a_check_tells_what_is_used_what_is_not_and_why(lastgood, place):
    before = everything_below(place)
    said = lastgood("app", "check", "transformers-trainer", "--directory", place, "--json", *TRAINER)
    answer = said.answer("app check")
    assert said.code == 0 and everything_below(place) == before
    assert [(c.step, c.is_used, bool(c.problem)) for c in answer.checkpoints] == [
        (500, False, True),
        (400, True, False),
        (300, False, False),
    ]
    assert answer.resume[-2:] == ["--resume_from_checkpoint", "out/checkpoint-400"]
    assert answer.fresh == list(TRAINER[1:])
    assert (answer.total, answer.is_finished) == (2000, False)
    assert "ended at its next checkpoint" in answer.stop


def test_the_text_fits_80_columns_but_for_commands(lastgood, place):
    said = lastgood("app", "check", "transformers-trainer", "--directory", place, *TRAINER)
    assert "out/checkpoint-500" in said.out and "it lacks optimizer.pt" in said.out
    free = ("fresh:", "resume:", "in ", "transformers Trainer")
    assert all(len(line) <= 80 for line in said.out.splitlines() if not line.startswith(free))


def test_where_no_checkpoint_can_be_used_the_code_says_damaged(lastgood, place):
    for path in place.glob("out/*/trainer_state.json"):
        os.truncate(path, 3)
    said = lastgood("app", "check", "transformers-trainer", "--directory", place, *TRAINER)
    assert said.code == 65 and "resumes from" not in said.out


def test_where_there_is_none_the_start_is_fresh(lastgood, tmp_path):
    said = lastgood("app", "check", "transformers-trainer", "--directory", tmp_path, *TRAINER)
    assert said.code == 0 and "no checkpoint: a start would begin from zero" in said.out


def test_a_description_of_ones_own_needs_no_command(lastgood, tmp_path):
    (tmp_path / "solver.toml").write_text(
        'format = 1\nname = "solver"\n[checkpoints]\nglob = ["*.chk"]\n[[finished]]\nexists = "result"\n'
    )
    (tmp_path / "a9.chk").write_text("x")
    (tmp_path / "a10.chk").write_text("")
    said = lastgood("app", "check", tmp_path / "solver.toml", "--directory", tmp_path)
    assert said.code == 0 and "it is empty" in said.out and "commands: give one behind --" in said.out
    (tmp_path / "result").write_text("")
    assert "finished: yes" in lastgood("app", "check", tmp_path / "solver.toml", "--directory", tmp_path).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check"], "which description?"),
        (["check", "gromacs"], "gromacs has an adapter in code"),
        (["check", "gromax"], "no application 'gromax' is known"),
        (["check", "no.toml"], "cannot read the description"),
        (["check", "transformers-trainer"], "the command has no --output_dir"),
        (["check", "transformers-trainer", "--directory", "/nowhere", *TRAINER], "--directory /nowhere"),
        (["list", "gromacs"], "takes no FILE"),
        (["transparent"], "needs --check"),
        (["try"], "invalid choice"),
    ],
)
def test_a_mistake_is_answered_with_code_2(lastgood, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    said = lastgood("app", *words)
    assert said.code == 2 and message in said.err and not said.out


def test_run_takes_the_same_names(lastgood, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = lastgood("run", "--job", "job", "--app", "gromax", "--", "true")
    assert said.code == 2 and "transformers-trainer" in said.err and not (tmp_path / "job").exists()


def test_the_limits_of_this_machine_are_each_met_not_met_or_not_known(lastgood):
    answer = lastgood("app", "transparent", "--check", "--json", "--", "sleep", "1").answer("app transparent")
    assert {limit.mechanism for limit in answer.limits} == {"CRIU", "cuda-checkpoint", "DMTCP", "MANA"}
    assert all(limit.looked_at for limit in answer.limits)
    assert "one process tree" in lastgood("app", "transparent", "--check").out
