"""`lastgood prove` on programs as their users write them: what it answers, and what it names as the reason.

docs/explanation/same-answer.md shows what it prints.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import prove_loops as loops
import pytest

from apps.conftest import make_run_input  # noqa: F401 - a fixture
from lastgood.prove.document import ProveAnswer

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 280

Prove = Callable[..., ProveAnswer]


@pytest.fixture
def prove(tmp_path: Path) -> Prove:
    """`prove(program, words of its command line, kills=1, options=())`, as a person would call it; its answer in JSON."""

    def run(program: Path, *words: str, kills: int = 1, options: tuple[str, ...] = ()) -> ProveAnswer:
        mine = tmp_path / "mine"
        mine.mkdir()
        shutil.copy(program, mine)
        command = ["--json", "--kills", str(kills), *options, "--", sys.executable, program.name, *words]
        return answer_of(command, mine, tmp_path / "runs")

    return run


def answer_of(words: list[str], directory: Path, runs: Path) -> ProveAnswer:
    done = subprocess.run(
        [sys.executable, "-c", loops.LASTGOOD, "prove", "--keep", str(runs), *words],
        cwd=directory,
        env={**os.environ, "OMP_NUM_THREADS": "1", "LOOKS": str(directory.with_name("looks"))},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    answer = msgspec.json.decode(done.stdout, type=ProveAnswer)
    assert all(kill.is_hit for one in answer.runs for kill in one.kills), done.stderr
    assert not any(part.differing for part in answer.pair), done.stderr
    return answer


def reasons(answer: ProveAnswer) -> str:
    return "\n".join(cause.name for cause in answer.why)


def evidence(answer: ProveAnswer) -> str:
    return "\n".join(line for cause in answer.why for line in cause.evidence)


def test_a_loop_of_its_own_that_saves_all_is_identical(prove: Prove) -> None:
    answer = prove(PROGRAMS / "own_loop.py", "--steps", "40")
    assert (answer.answer, answer.why) == ("identical", [])
    (kill,) = answer.runs[0].kills
    assert kill.resumed_from == kill.newest_step > 0


def test_weights_only(prove: Prove) -> None:
    answer = prove(PROGRAMS / "own_loop.py", "--steps", "40", "--mistake", "weights-only")
    assert answer.answer == "diverged"
    assert "the optimizer is not in the checkpoint" in reasons(answer)
    assert "`optimizer` (torch.optim.Adam" in evidence(answer)
    assert "random state" not in reasons(answer)


def test_no_random_state(prove: Prove) -> None:
    answer = prove(PROGRAMS / "own_loop.py", "--steps", "40", "--mistake", "no-random-state")
    assert answer.answer == "diverged"
    assert "no random state in the checkpoint" in reasons(answer)
    assert "optimizer is not" not in reasons(answer)


def test_shuffled_data_that_restarts(prove: Prove) -> None:
    answer = prove(PROGRAMS / "own_loop.py", "--steps", "40", "--mistake", "data-restarts")
    assert answer.answer == "diverged"
    assert "the data begins again: its position is not in the checkpoint" in reasons(answer)
    assert "no random state" not in reasons(answer)


def test_names_without_zeros(prove: Prove) -> None:
    """The numbers are equal: it only does work again, more of it the longer it runs."""
    answer = prove(PROGRAMS / "own_loop.py", "--steps", "40", "--mistake", "unpadded-names")
    assert answer.answer == "lost work"
    assert "numbers in names are not padded" in reasons(answer)
    assert "out/step_8.pt comes after out/step_12.pt" in evidence(answer)


def test_saving_in_place(prove: Prove) -> None:
    answer = prove(PROGRAMS / "own_loop.py", "--steps", "40", "--mistake", "in-place", kills=2)
    assert answer.answer == "did not resume"
    assert "saved in place: a kill in the middle leaves half of it" in reasons(answer)
    assert [one.answer for one in answer.runs] == ["identical", "did not resume"]


def test_a_trainer_of_hugging_face_trains_the_same_model_and_reports_another_mean_loss(prove: Prove) -> None:
    """Killed between two checkpoints. The mean that it prints in the end is of the steps since the resume."""
    answer = prove(PROGRAMS / "hf_trainer.py")
    (kill,) = answer.runs[0].kills
    assert kill.resumed_from > 0
    parts = {part.name: part for part in answer.runs[0].parts}
    assert "final/model.safetensors" in parts["values in final files"].items
    assert parts.pop("values in final files").differing == 0
    assert [part.first.what for part in parts.values() if part.differing] == ["train_loss"]


def test_lightning_keeps_no_random_state(prove: Prove) -> None:
    """Its own checkpoint in the middle of an epoch, dropout, and a loader that shuffles: as most people have it."""
    answer = prove(PROGRAMS / "lightning_script.py")
    assert answer.answer == "diverged"
    assert "no random state in the checkpoint" in reasons(answer)
    (kill,) = answer.runs[0].kills
    assert answer.runs[0].parts[0].first.step == kill.resumed_from + 1


def test_lightning_with_its_random_state_saved_where_epochs_end_is_identical(prove: Prove) -> None:
    answer = prove(PROGRAMS / "lightning_script.py", "--every", "epoch", "--keep-random")
    assert answer.answer == "identical"
    assert answer.runs[0].kills[0].resumed_from > 0


def test_our_example_is_identical(prove: Prove) -> None:
    answer = prove(EXAMPLES / "numpy_loop.py", "--epochs", "60")
    assert answer.answer == "identical"
    assert answer.runs[0].kills[0].resumed_from > 0


def test_gromacs_with_reprod_is_identical(make_run_input: Callable[..., Path], tmp_path: Path) -> None:  # noqa: F811
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(make_run_input(2.2), mine / "topol.tpr")
    command = ["gmx", "mdrun", "-s", "topol.tpr", "-ntmpi", "1", "-ntomp", "1", "-reprod"]
    words = ["--json", "--kills", "1", "--app", "gromacs", "--save-every", "500ms", "--", *command]
    answer = answer_of(words, mine, tmp_path / "runs")
    assert answer.answer == "identical"
    assert answer.runs[0].kills[0].resumed_from > 0
