"""What a killed run resumed from, by its output and its files, and by the journals of our launcher."""

from pathlib import Path

import pytest

from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.prove.checkpoint_files import Units
from lastgood.prove.killing import Hit
from lastgood.prove.plan_of_kills import Kill, Phase, Profile
from lastgood.prove.resuming import Resumed, resumed_after
from lastgood.prove.shown import Shown
from lastgood.prove.watching import Said, Written
from lastgood.trial.place import Place
from lastgood.trial.target import Way

PATTERN = r"step (\d+)"
PROFILE = Profile(10.0, (), last_step=40, first_step=1)
NUMBERED = Units(("out/step_#.pt",), are_numbered_by_step=True)


def shown(lines: list[Said], written: list[Written], records: list[Record] | None = None) -> Shown:
    return Shown(
        name="killed-1",
        place=Place(Path("/nowhere"), "killed-1"),
        way=Way.LASTGOOD if records else Way.AGAIN,
        began=0.0,
        duration_s=10.0,
        exit_code=0,
        lines=lines,
        written=written,
        temporary=[],
        steps=[],
        records=records or [],
        hits=[],
        digests={},
        baseline={},
    )


def steps(start: int, first: int, last: int, at: float = 0.0) -> list[Said]:
    return [Said(at + step * 0.1, start, f"step {step}") for step in range(first, last + 1)]


def saved(step: int, path: str = "out/step_{}.pt", seen: int | None = None) -> Written:
    return Written(step * 0.1 + 0.01, step * 0.1, 1, path.format(step), 10, seen or step, (seen or step) + 1)


def hit(at: float = 2.5, unsound: tuple[str, ...] = ()) -> Hit:
    return Hit(Kill(Phase.BETWEEN, 1, step=25), True, at, 25, 1, "SIGKILL", unsound)


def resumed(lines: list[Said], written: list[Written], units: Units = NUMBERED, **more: object) -> Resumed:
    return resumed_after(shown(lines, written), hit(**more), units, PROFILE, PATTERN)


def test_a_header_that_names_the_last_step_is_not_where_it_went_on():
    header = [Said(3.0, 2, "runs to step 40")]
    found = resumed(steps(1, 1, 25) + header + steps(2, 1, 40, at=3.0), [saved(20)])
    assert found.step == 0
    assert found.is_from_zero


def test_it_went_on_after_the_step_before_the_first_that_is_told_again():
    found = resumed(steps(1, 1, 25) + steps(2, 21, 40), [saved(10), saved(20)])
    assert (found.killed_at, found.step, found.newest_step, found.newest) == (25, 20, 20, "out/step_20.pt")
    assert found.newest_at == 2.01
    assert not found.is_too_early
    assert not found.is_from_zero


def test_an_older_checkpoint_is_too_early():
    found = resumed(steps(1, 1, 25) + steps(2, 11, 40), [saved(10), saved(20)])
    assert found.is_too_early
    assert found.there == ("out/step_10.pt", "out/step_20.pt")


def test_a_line_that_names_the_step_it_resumes_from_is_not_too_early():
    found = resumed([*steps(1, 1, 25), Said(3.0, 2, "resumed at step 20"), *steps(2, 21, 40)], [saved(10), saved(20)])
    assert not found.is_too_early


def test_beginning_at_one_is_from_zero_where_there_was_a_checkpoint_and_only_there():
    lines = steps(1, 1, 25) + steps(2, 1, 40)
    assert resumed(lines, [saved(10)]).is_from_zero
    assert not resumed(lines, []).is_from_zero


@pytest.mark.parametrize(("first", "step", "is_from_zero"), [((1, 5), 1, False), ((2, 1), 1, False), ((1, 1), 0, True)])
def test_where_steps_begin_anew_in_each_epoch_a_resume_within_the_first_is_not_from_zero(
    first: tuple[int, int], step: int, is_from_zero: bool
):
    before = [Said(0.0, 1, f"Epoch {epoch}, step {i}/10") for epoch in (1, 2) for i in range(1, 11)]
    run = shown([*before, Said(3.0, 2, "Epoch {}, step {}/10".format(*first))], [saved(2, "last.pt", seen=1)])
    profile = Profile(10.0, (), last_step=3, first_step=1)
    found = resumed_after(run, hit(), Units(("last.pt",)), profile, r"Epoch (\d+)", r"step (\d+)")
    assert (found.step, found.is_from_zero, found.is_too_early) == (step, is_from_zero, False)


def test_a_checkpoint_that_the_kill_left_half_written_does_not_count():
    found = resumed(
        steps(1, 1, 20) + steps(2, 11, 40), [saved(10), saved(20)], unsound=("out/step_20.pt: it is empty",)
    )
    assert found.newest_step == 10
    assert not found.is_too_early
    assert not found.is_destroyed


def test_the_only_checkpoint_destroyed_is_told():
    units = Units(("last.pt",))
    written = [saved(10, "last.pt"), saved(20, "last.pt")]
    found = resumed(steps(1, 1, 20) + steps(2, 1, 40), written, units, unsound=("last.pt: it is empty",))
    assert found.is_destroyed
    assert found.newest_step == 10


def test_where_kinds_of_files_are_guessed_the_older_of_the_newest_is_all_that_is_asked_for():
    units = Units(("last.pt", "weights.npz"), is_guessed=True)
    written = [saved(10, "last.pt"), saved(20, "last.pt"), saved(25, "weights.npz")]
    assert not resumed(steps(1, 1, 27) + steps(2, 21, 40), written, units, at=2.7).is_too_early
    asked = Units(("last.pt", "weights.npz"))
    assert resumed(steps(1, 1, 27) + steps(2, 11, 40), written, asked, at=2.7).is_too_early


def test_output_that_tells_every_tenth_step_leaves_as_much_open():
    lines = [Said(step * 0.1, 1, f"step {step}") for step in (10, 20)] + [Said(4.0, 2, "step 30")]
    profile = Profile(10.0, (), last_step=40, first_step=10)
    found = resumed_after(shown(lines, [saved(22)]), hit(), NUMBERED, profile, PATTERN)
    assert found.step == 20
    assert not found.is_too_early


def journal(number: int, *events: Event) -> Record:
    return Record(number, number * 1.0, "launch", False, list(events))


def test_under_our_launcher_the_journals_tell():
    records = [
        journal(
            1,
            Event("started", 0.1, {"how": "fresh", "step": 0}),
            Event("committed", 1.0, {"step": 10, "name": "a"}),
            # By the keeper, after the job's death.
            Event("committed", 2.6, {"step": 20, "name": "b"}),
            Event("ended", 2.7, {"step": 25}),
        ),
        journal(2, Event("started", 3.0, {"how": "resumed", "step": 20}), Event("committed", 4.0, {"step": 30})),
    ]
    found = resumed_after(shown([], [], records), hit(), Units(()), PROFILE, "")
    assert (found.killed_at, found.step, found.newest_step, found.newest) == (25, 20, 20, "b")
    assert found.newest_at == 2.6


def test_a_refused_start_says_why():
    records = [
        journal(1, Event("ended", 2.7, {"step": 25})),
        journal(2, Event("refused", 3.0, {"reason": "it is gone"})),
    ]
    assert resumed_after(shown([], [], records), hit(), Units(()), PROFILE, "").refused == "it is gone"
