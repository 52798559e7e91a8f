"""What two runs have left and printed, held against each other: nothing that cannot be compared passes for equal."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from lastgood.prove.checkpoint_files import Units
from lastgood.prove.checkpoint_state import compare_jobs
from lastgood.prove.comparing import ESTIMATES, FILES, VALUES, Wanted, compare_resumed, compare_undisturbed
from lastgood.prove.comparing import statistical_parts as parts_of
from lastgood.prove.difference import EXACT
from lastgood.prove.output_lines import Finders
from lastgood.prove.plan_of_kills import Profile
from lastgood.prove.profiling import Known
from lastgood.prove.shown import Shown
from lastgood.prove.verdict import Part
from lastgood.prove.watching import Said
from lastgood.store.jobdir import JobDirectory, create_job
from lastgood.store.writer import CheckpointWriter
from lastgood.trial.place import Place
from lastgood.trial.target import Way

Run = Callable[..., Shown]

ESTIMATED = Finders(r"step (\d+)", is_values_guessed=True)


def wanted(*files: str, statistical: tuple[tuple[str, str], ...] = (), kinds: tuple[str, ...] = ()) -> Wanted:
    known = Known(Way.AGAIN, "as asked", Profile(10.0, ()), Units(kinds), ESTIMATED)
    return Wanted(known, EXACT, files, statistical)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that has printed lines and left files."""

    def make(name: str, lines: tuple[str, ...] = (), files: Mapping[str, bytes] = MappingProxyType({})) -> Shown:
        place = Place(tmp_path, name)
        place.work.mkdir(parents=True)
        for file, content in files.items():
            (place.work / file).write_bytes(content)
        return Shown(
            name=name,
            place=place,
            way=Way.AGAIN,
            began=0.0,
            duration_s=10.0,
            exit_code=0,
            lines=[Said(float(i), 1, text) for i, text in enumerate(lines)],
            written=[],
            temporary=[],
            steps=[],
            records=[],
            hits=[],
            digests={},
            baseline={},
        )

    return make


def of(parts: tuple[Part, ...], name: str) -> Part:
    return next(part for part in parts if part.name == name)


class TestFinalFiles:
    def test_one_that_cannot_be_looked_into_differs_where_its_bytes_do(self, run: Run) -> None:
        left, again, other = (
            run(name, files={"results.json": b'{"a": 1}\n{"b": %d}\n' % b})
            for name, b in (("l", 1), ("a", 1), ("o", 2))
        )
        pair = compare_undisturbed(left, again, wanted())
        assert of(pair.parts, FILES).comparison.kind == "identical"
        found = of(compare_resumed(left, other, wanted(), pair), FILES).comparison
        assert found.kind == "differs"
        assert found.first is not None and found.first.where == "results.json"
        assert "is not JSON" in found.first.reason

    def test_empty_ones_beside_others_take_nothing_from_the_answer(self, run: Run) -> None:
        left, again = (run(name, files={"err.log": b"", "out.csv": b"a,b\n1,2\n"}) for name in "la")
        pair = compare_undisturbed(left, again, wanted("*"))
        assert (of(pair.parts, FILES).comparison.kind, of(pair.parts, FILES).comparison.compared) == ("identical", 2)
        assert any("err.log holds nothing in both" in note for note in pair.notes)

    @pytest.mark.parametrize("files", [(), ("o.npz",)])
    def test_one_that_is_a_link_to_the_same_place_is_not_compared_with_itself(
        self, run: Run, tmp_path: Path, files: tuple[str, ...]
    ) -> None:
        np.savez(tmp_path / "shared.npz", w=np.arange(3))
        left, again = (run(name) for name in "la")
        for shown in (left, again):
            (shown.place.work / "o.npz").symlink_to(tmp_path / "shared.npz")
        pair = compare_undisturbed(left, again, wanted(*files))
        assert [part.comparison.kind for part in pair.parts] == ["not comparable"] * len(files)
        assert pair.left_out == (() if files else ("o.npz",))
        assert any("o.npz is the same file for both" in note for note in pair.notes)

    def test_names_that_call_themselves_temporary_or_hidden_are_compared_where_both_runs_have_left_them(
        self, run: Run
    ) -> None:
        names = ("temp_profile.npy", ".hidden.npy", "tmp_out.npy")
        left, again = (run(name, files=dict.fromkeys(names, b"1")) for name in "la")
        other = run("o", files=dict.fromkeys(names, b"2"))
        pair = compare_undisturbed(left, again, wanted())
        assert sorted(pair.files) == sorted(names)
        assert of(compare_resumed(left, other, wanted(), pair), FILES).differs

    def test_what_only_one_undisturbed_run_has_written_is_named_unless_it_is_a_checkpoint(self, run: Run) -> None:
        left = run("l", files=dict.fromkeys(("out.raw", "run_1001.raw", "step_3.pt"), b"x"))
        again = run("a", files=dict.fromkeys(("out.raw", "run_1002.raw", "step_4.pt"), b"x"))
        pair = compare_undisturbed(left, again, wanted(kinds=("step_#.pt",)))
        assert pair.files == ("out.raw",)
        assert pair.left_out == ("run_1001.raw", "run_1002.raw")


class TestEstimates:
    NAMES = (("mean", "err"), ("var", ""))

    def lines(self, last: int = 10, var: str = "0.{}") -> tuple[str, ...]:
        return tuple(f"step {i} mean 1.5 err 0.5 var {var.format(i)}" for i in range(1, last + 1))

    def part(self, run: Run, *resumed: tuple[str, ...]) -> list[Part]:
        left, again = (run(name, self.lines()) for name in "la")
        asked = wanted(statistical=self.NAMES)
        pair = compare_undisturbed(left, again, asked)
        assert not any(part.differs for part in pair.parts)
        rights = [run(f"r{i}", lines) for i, lines in enumerate(resumed)]
        return parts_of(left, rights, asked, pair.last_step)

    def test_that_the_resumed_run_has_as_nan_differ(self, run: Run) -> None:
        (found,) = self.part(run, self.lines(var="nan"))
        assert found.name == ESTIMATES
        assert (found.comparison.kind, found.comparison.differing) == ("differs", 1)
        assert found.comparison.first is not None and found.comparison.first.what == "var (run 1)"

    def test_that_one_of_two_runs_lacks_make_that_run_differ(self, run: Run) -> None:
        good, bad = self.part(run, self.lines(), tuple(f"step {i}" for i in range(1, 11)))
        assert good.comparison.kind == "identical"
        assert (bad.comparison.kind, bad.comparison.differing) == ("differs", 2)

    def test_of_a_run_that_ended_early_are_of_another_end(self, run: Run) -> None:
        (found,) = self.part(run, self.lines(last=5))
        assert found.differs
        assert (found.ends_at, found.should_end_at) == (5, 10)

    def test_of_jobs_that_end_where_they_converge_may_end_at_any_step(self, run: Run) -> None:
        asked = wanted(statistical=self.NAMES)
        left, again = run("l", self.lines(10)), run("a", self.lines(9))
        pair = compare_undisturbed(left, again, asked)
        assert pair.last_step is None
        assert not any(part.ends_elsewhere for part in (*pair.parts, *parts_of(left, [again], asked, pair.last_step)))


LOSS = MappingProxyType({"loss": r"loss ([\d.]+)"})


class TestStepsOfEpochs:
    def wanted(self, values: Mapping[str, str] = MappingProxyType({})) -> Wanted:
        inner = Finders(r"Epoch (\d+)", dict(values), is_values_guessed=not values, inner=r"step\s*(\d+)")
        return Wanted(Known(Way.AGAIN, "as asked", Profile(10.0, ()), Units(()), inner), EXACT)

    def lines(self, first: int, last: int) -> tuple[str, ...]:
        return tuple(f"Epoch {i // 4 + 1}, step {i % 4 + 1}/4: loss 0.{i}1" for i in range(first, last))

    def headed(self, first: int, last: int, *, is_headed_again: bool = True) -> tuple[str, ...]:
        """The epoch on a line of its own, before its steps."""
        lines = []
        for i in range(first, last):
            if i % 4 == 0 or (i == first and is_headed_again):
                lines.append(f"Epoch {i // 4 + 1}")
            lines.append(f"  step {i % 4 + 1} loss 0.{i}1")
        return tuple(lines)

    def footed(self, first: int, last: int) -> tuple[str, ...]:
        """The epoch on a line of its own, after its steps."""
        lines = []
        for i in range(first, last):
            lines.append(f"  step {i % 4 + 1} loss 0.{i}1")
            if i % 4 == 3:
                lines.append(f"Epoch {i // 4 + 1} val 0.5")
        return tuple(lines)

    @pytest.mark.parametrize("values", [{}, LOSS], ids=["guessed", "asked for"])
    @pytest.mark.parametrize(("killed_at", "resumed_at"), [(11, 9), (11, 8), (13, 11), (13, 5), (15, 13)])
    @pytest.mark.parametrize("shape", ["lines", "headed", "footed", "headed once"])
    def test_a_right_resume_in_the_middle_of_an_epoch_is_identical_in_all_losses(
        self, run: Run, shape: str, killed_at: int, resumed_at: int, values: Mapping[str, str]
    ) -> None:
        asked = self.wanted(values)
        lines = self.headed if shape == "headed once" else getattr(self, shape)
        left, again = (run(name, lines(0, 16)) for name in "la")
        pair = compare_undisturbed(left, again, asked)
        resumed = run("r", lines(0, killed_at))
        later = self.headed(resumed_at, 16, is_headed_again=False) if shape == "headed once" else lines(resumed_at, 16)
        resumed.lines.extend(Said(20.0 + i, 2, text) for i, text in enumerate(later))
        parts = compare_resumed(left, resumed, asked, pair)
        assert [part.comparison.kind for part in parts] == ["identical"] * len(parts)
        assert of(parts, VALUES).comparison.compared == (20 if shape == "footed" and not values else 16)

    @pytest.mark.parametrize("values", [{}, LOSS], ids=["guessed", "asked for"])
    @pytest.mark.parametrize("shape", ["lines", "headed", "footed"])
    def test_another_loss_after_the_resume_is_found(self, run: Run, shape: str, values: Mapping[str, str]) -> None:
        asked = self.wanted(values)
        lines = getattr(self, shape)
        left, again = (run(name, lines(0, 16)) for name in "la")
        pair = compare_undisturbed(left, again, asked)
        resumed = run("r", lines(0, 11))
        resumed.lines.extend(Said(20.0 + i, 2, text.replace("0.141", "0.9")) for i, text in enumerate(lines(9, 16)))
        found = of(compare_resumed(left, resumed, asked, pair), VALUES).comparison
        assert (found.kind, found.differing) == ("differs", 1)
        assert found.first is not None and found.first.what == "loss (step 3)"

    def test_a_resume_in_the_middle_of_an_epoch_is_compared_at_the_steps_within_it(self, run: Run) -> None:
        asked = self.wanted()
        left, again = (run(name, self.lines(0, 16)) for name in "la")
        pair = compare_undisturbed(left, again, asked)
        resumed = run("r", self.lines(0, 11))
        resumed.lines.extend(Said(20.0 + i, 2, text) for i, text in enumerate(self.lines(9, 16)))
        found = of(compare_resumed(left, resumed, asked, pair), VALUES)
        assert (found.comparison.kind, found.comparison.compared) == ("identical", 16)
        resumed.lines[-1] = Said(40.0, 2, "Epoch 4, step 4/4: loss 0.9")
        found = of(compare_resumed(left, resumed, asked, pair), VALUES)
        assert found.comparison.first is not None
        assert (found.comparison.first.step, found.comparison.first.what) == (4, "loss (step 4)")


@pytest.fixture
def jobs(tmp_path: Path) -> tuple[JobDirectory, JobDirectory]:
    """Equal but for their global random state."""
    made = create_job(tmp_path / "a"), create_job(tmp_path / "b")
    for seed, job in enumerate(made):
        writer = CheckpointWriter(job, 10, 1)
        writer.write_part(0, [], {"state": {"x": 1}, "lastgood": {"step": 10}, "lastgood.random": {"python": seed}})
        writer.commit(1)
    return made


def test_the_global_random_state_of_saved_states_counts_where_equal_runs_have_it_equal(
    jobs: tuple[JobDirectory, JobDirectory],
) -> None:
    paths = [job.path for job in jobs]
    told = compare_jobs(*paths)
    assert told.kind == "identical"
    assert "the global random state differs" in told.notes[0]
    decided = compare_jobs(*paths, is_random_compared=True)
    assert decided.first is not None
    assert (decided.kind, decided.first.what) == ("differs", "lastgood.random.python")
