"""Proofs of real processes that are really killed: each kind of answer, and each classic mistake by its name."""

import sys
from collections.abc import Callable
from pathlib import Path

import prove_loops as loops
import pytest

from lastgood.prove.runner import Proof, Request, prove
from lastgood.prove.verdict import Answer
from lastgood.trial.target import Target, Way

pytestmark = pytest.mark.slow

Prove = Callable[..., Proof]


@pytest.fixture
def prove_loop(tmp_path: Path) -> Prove:
    """Proves a program that is given as its source."""

    def run(
        source: str,
        *,
        limit_s: float = 60.0,
        kills: int = 1,
        way: Way | None = Way.AGAIN,
        waits_for_looks: bool = True,
        **more: object,
    ) -> Proof:
        directory = tmp_path / "mine"
        directory.mkdir()
        (directory / "train.py").write_text(source)
        looks = Looks(tmp_path / "looks")
        target = Target(
            command=(sys.executable, "train.py"),
            directory=directory,
            limit_s=limit_s,
            environment=looks.environment if waits_for_looks else {},
        )
        root = tmp_path / "root"
        root.mkdir()
        request = Request(target=target, root=root, kills=kills, way=way, **more)
        return prove(request, looks, lambda text: None)

    return run


class Looks:
    """Counts the looks at the runs of a proof, for loops that wait for them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.touch()
        self.environment = {"LOOKS": str(path)}

    def __call__(self, name: str, sight: object) -> None:
        with self._path.open("ab") as file:
            file.write(b".")


def names_of_causes(proof: Proof) -> str:
    return "; ".join(cause.name for cause in proof.causes)


def test_a_loop_that_saves_all_that_it_needs_is_identical_however_it_is_killed(prove_loop: Prove):
    proof = prove_loop(loops.RIGHT, kills=3)
    assert proof.verdict.answer is Answer.IDENTICAL, proof.verdict
    assert all(hit.is_hit for run in proof.killed for hit in run.hits)
    assert len(proof.killed[2].hits) == 2
    assert [part.name for part in proof.pair.parts] == ["logged values", "values in final files"]
    assert "final.npy" in proof.pair.files
    assert proof.causes == ()


def test_weights_only_is_caught_and_named(prove_loop: Prove):
    proof = prove_loop(loops.WEIGHTS_ONLY)
    assert proof.verdict.answer is Answer.DIVERGED
    assert "weights only" in names_of_causes(proof)


def test_a_missing_optimizer_is_caught_by_the_step_at_which_it_shows(prove_loop: Prove):
    proof = prove_loop(loops.NO_OPTIMIZER)
    assert proof.verdict.answer is Answer.DIVERGED
    assert "the optimizer is not in the checkpoint" in names_of_causes(proof)
    assert "the first step after the resume is equal" in names_of_causes(proof)
    assert "random" not in names_of_causes(proof)


def test_missing_random_state_is_caught_and_named(prove_loop: Prove):
    proof = prove_loop(loops.NO_RANDOM_STATE)
    assert proof.verdict.answer is Answer.DIVERGED
    (cause,) = [cause for cause in proof.causes if cause.name == "no random state in the checkpoint"]
    assert any("`rng`" in line for line in cause.evidence)
    assert "optimizer" not in names_of_causes(proof)
    resumed = proof.killed[0].resumed[0]
    assert proof.killed[0].parts[0].equal_to == resumed.step


def test_shuffled_data_that_begins_again_is_caught_and_named(prove_loop: Prove):
    proof = prove_loop(loops.DATA_RESTARTS)
    assert proof.verdict.answer is Answer.DIVERGED
    assert "the data begins again" in names_of_causes(proof)
    assert "no random state" not in names_of_causes(proof)


def test_names_that_are_not_padded_are_caught_and_named_although_the_numbers_are_equal(prove_loop: Prove):
    proof = prove_loop(loops.UNPADDED_NAMES)
    assert proof.verdict.answer is Answer.LOST_WORK
    assert "not padded" in names_of_causes(proof)
    assert proof.killed[0].parts[0].comparison.kind == "identical"


def test_saving_in_place_is_caught_by_a_kill_in_the_middle_and_named(prove_loop: Prove):
    proof = prove_loop(loops.IN_PLACE, kills=2)
    assert proof.verdict.answer is Answer.DID_NOT_RESUME
    assert "saved in place" in names_of_causes(proof)
    (hit,) = proof.killed[1].hits
    assert hit.is_hit
    assert hit.unsound


def test_without_strace_a_save_is_hit_when_its_write_is_seen(prove_loop: Prove, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lastgood.prove.at_write.shutil.which", lambda program: None)
    # Whoever waits for a write looks at nothing else meanwhile.
    proof = prove_loop(loops.IN_PLACE, kills=2, waits_for_looks=False)
    (hit,) = proof.killed[1].hits
    assert hit.is_hit
    assert "out/last.npz was seen to be written" in hit.detail


def test_a_loop_that_never_looks_for_its_checkpoints_did_not_resume(prove_loop: Prove):
    proof = prove_loop(loops.NEVER_LOOKS)
    assert proof.verdict.answer is Answer.DID_NOT_RESUME
    assert "began again at zero" in proof.verdict.reason
    assert "does not resume from its checkpoint" in names_of_causes(proof)


def test_a_loop_that_never_saves_is_told_after_its_first_run(prove_loop: Prove):
    proof = prove_loop(loops.NEVER_SAVES)
    assert proof.verdict.answer is Answer.UNKNOWN
    assert "never checkpoints" in proof.verdict.reason
    assert len(proof.undisturbed) == 1
    assert proof.killed == ()


def test_a_loop_that_differs_from_itself_is_told_apart(prove_loop: Prove):
    proof = prove_loop(loops.NOT_DETERMINISTIC)
    assert proof.verdict.answer is Answer.NOT_DETERMINISTIC
    assert "random numbers are others in each run" in names_of_causes(proof)


def test_a_command_that_fails_by_itself_says_its_last_words(prove_loop: Prove):
    proof = prove_loop("import sys; print('step 1'); sys.exit('no data: /data/x')")
    assert proof.verdict.answer is Answer.UNKNOWN
    assert "undisturbed, it ends with exit code 1: no data: /data/x" in proof.verdict.reason


def test_a_command_that_does_not_end_is_ended_at_the_limit(prove_loop: Prove):
    proof = prove_loop("import time; print('step 1', flush=True); time.sleep(600)", limit_s=1.0)
    assert proof.verdict.answer is Answer.UNKNOWN
    assert "did not end within the limit of 1 s" in proof.verdict.reason


def test_without_any_step_in_the_output_kills_are_placed_by_time(prove_loop: Prove):
    source = loops.changed((loops.PRINTS, ""))
    proof = prove_loop(source, kills=2)
    assert proof.verdict.answer is Answer.IDENTICAL, proof.verdict
    assert all(hit.is_hit and hit.step is None for run in proof.killed for hit in run.hits)


@pytest.mark.parametrize(("changes", "answer"), [((), Answer.IDENTICAL), (loops.WITHOUT_RANDOM, Answer.DIVERGED)])
def test_where_only_a_last_line_is_printed_it_is_compared(
    prove_loop: Prove, changes: tuple[tuple[str, str], ...], answer: Answer
):
    # Its checkpoints are removed in the end.
    last = 'print("the answer is", repr(w.sum()))\nimport shutil\nshutil.rmtree("out")\n'
    source = loops.changed((loops.PRINTS, ""), ('np.save("final.npy", w)\n', last), *changes)
    proof = prove_loop(source)
    assert proof.verdict.answer is answer, proof.verdict
    assert [part.name for part in proof.pair.parts] == ["lines in the end of its output"]


def test_a_job_that_uses_the_library_is_found_out_and_its_state_compared(prove_loop: Prove):
    proof = prove_loop(loops.WITH_LIBRARY, kills=2, way=None)
    assert proof.verdict.answer is Answer.IDENTICAL, proof.verdict
    assert proof.known.is_with_library
    assert [part.name for part in proof.pair.parts] == [
        "logged values",
        "saved states by their digests",
        "values of saved state",
    ]
    assert all(resumed.step == resumed.newest_step for run in proof.killed for resumed in run.resumed)


def test_state_that_a_library_job_keeps_to_itself_is_caught_and_named(prove_loop: Prove):
    source = loops.WITH_LIBRARY.replace('"rng": rng, ', "")
    proof = prove_loop(source, way=None)
    assert proof.verdict.answer is Answer.DIVERGED
    assert any("`rng`" in line for cause in proof.causes for line in cause.evidence)


def test_a_program_with_a_resume_option_resumes_by_the_launcher(prove_loop: Prove, tmp_path: Path):
    proof = prove_with_option(tmp_path, options=("--checkpoints", "out/*.npz", "--resume-arg", "--resume {checkpoint}"))
    assert proof.verdict.answer is Answer.IDENTICAL, proof.verdict
    assert proof.killed[0].resumed[0].step == proof.killed[0].resumed[0].newest_step


def prove_with_option(tmp_path: Path, options: tuple[str, ...]) -> Proof:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text(loops.WITH_OPTION)
    looks = Looks(tmp_path / "looks")
    target = Target(
        command=(sys.executable, "train.py"),
        directory=tmp_path / "mine",
        environment=looks.environment,
        options=options,
        checkpoints="out/*.npz",
        limit_s=60.0,
    )
    (tmp_path / "root").mkdir()
    request = Request(target=target, root=tmp_path / "root", kills=1, way=Way.LASTGOOD)
    return prove(request, looks, lambda text: None)
