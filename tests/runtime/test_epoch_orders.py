"""Each sample exactly once per epoch, wherever an attempt ended, or a refusal."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import StateMismatchError
from lastgood.runtime.position import Position
from lastgood.runtime.reading import Reading

# Before the first Run: whose random state is kept is seen then.
torch = pytest.importorskip("torch")

SIZE, EPOCHS = 12, 2

Start = Callable[..., lastgood.Run]
Loaders = Callable[[int], Iterable[Iterable[Any]]]
"""The loaders of an epoch, in its body."""


def attempt(start: Start, make: Callable[[], Loaders], seen: dict[int, list[int]], until: int) -> bool:
    """One attempt, which ends after step `until`. True if it came to the job's end."""
    run = start()
    loaders = make()
    for epoch in run.epochs(EPOCHS):
        for loader in loaders(epoch):
            for batch in run.batches(loader):
                seen.setdefault(epoch, []).extend(np.asarray(batch).ravel().tolist())
                if run.step + 1 == until:
                    run.safe_point("the end of this attempt", step_is_done=True)
                    run.close()
                    return False
    run.close()
    return True


def read_in_attempts(start: Start, make: Callable[[], Loaders], *ends: int) -> dict[int, list[int]]:
    """What is read by attempts that end after these steps, and by a last one, for each epoch."""
    seen: dict[int, list[int]] = {}
    for end in ends:
        assert not attempt(start, make, seen, end)
    assert attempt(start, make, seen, -1)
    return seen


def assert_each_once(seen: dict[int, list[int]]) -> None:
    assert {epoch: sorted(read) for epoch, read in seen.items()} == {
        epoch: list(range(SIZE)) for epoch in range(1, EPOCHS + 1)
    }


@pytest.mark.parametrize("persistent", [False, True])
def test_with_worker_processes_a_resumable_sampler_goes_on_where_it_was(start: Start, persistent: bool) -> None:

    def make() -> Loaders:
        loader = torch.utils.data.DataLoader(
            torch.arange(SIZE),
            batch_sampler=lastgood.ResumableSampler(SIZE, batch_size=2, seed=3),
            num_workers=1,
            persistent_workers=persistent,
        )
        return lambda epoch: [loader]

    seen = read_in_attempts(start, make, 2, 8)
    assert_each_once(seen)
    assert seen[1] != seen[2]


def drawn_by_numpy(epoch: int) -> Iterator[list[np.ndarray]]:
    yield np.split(np.random.permutation(SIZE), 6)


def drawn_by_torch(epoch: int) -> Iterator[Any]:
    yield torch.randperm(SIZE).split(2)


def drawn_for_two_loaders(epoch: int) -> Iterator[list[np.ndarray]]:
    yield np.split(np.random.permutation(4), 2)
    yield np.split(4 + np.random.permutation(8), 4)


def drawn_once_for_two_loaders(epoch: int) -> Iterator[list[np.ndarray]]:
    batches = np.split(np.random.permutation(SIZE), 6)
    yield batches[:2]
    yield batches[2:]


def drawn_while_batches_are_made(epoch: int) -> Iterator[Iterator[np.ndarray]]:
    order = np.random.permutation(SIZE)
    # What augmentation draws moves the random state within the epoch.
    yield (batch + 0 * np.random.randint(5) for batch in np.split(order, 6))


@pytest.mark.parametrize(
    "loaders",
    [
        drawn_by_numpy,
        drawn_by_torch,
        drawn_for_two_loaders,
        drawn_once_for_two_loaders,
        drawn_while_batches_are_made,
    ],
)
@pytest.mark.parametrize("ends", [(1,), (2,), (5,), (6,), (9,), (3, 4, 7, 11)])
def test_an_order_that_the_body_draws_from_global_generators_is_the_same_after_a_resume(
    start: Start, loaders: Loaders, ends: tuple[int, ...]
) -> None:
    seen = read_in_attempts(start, lambda: loaders, *ends)
    assert_each_once(seen)
    assert seen[1] != seen[2]


def test_random_numbers_after_a_resume_are_those_of_a_job_without_one_where_the_body_draws_before_and_between_loaders(
    start: Start, tmp_path: Path
) -> None:
    def draws(job: str, *ends: int) -> list[float]:
        drawn: dict[int, float] = {}
        np.random.seed(1)
        for end in (*ends, -1):
            run = start(job=tmp_path / job)
            for _ in run.epochs(2):
                for _ in range(2):
                    np.random.rand()
                    run.safe_point("before the batches")
                    for _ in run.batches(range(3)):
                        drawn[run.step + 1] = np.random.rand()
                        if run.step + 1 == end:
                            run.safe_point("the end of this attempt", step_is_done=True)
                            break
                    if run.step == end:
                        break
                if run.step == end:
                    break
            run.close()
        return list(drawn.values())

    assert draws("resumed", 1, 4, 8, 11) == draws("whole")


def test_a_loop_that_is_entered_again_in_the_same_attempt_reads_the_rest_of_the_drawn_order(start: Start) -> None:
    run = start()
    seen = []
    for leave_after in (2, 99):
        try:
            for _ in run.epochs(1):
                for batch in run.batches(np.split(np.random.permutation(SIZE), 6)):
                    if run.step == leave_after:
                        raise KeyError
                    seen += batch.tolist()
        except KeyError:
            continue
    assert sorted(seen) == list(range(SIZE))


def test_a_save_of_steps_after_an_epoch_that_was_left_holds_the_random_state_of_then(start: Start) -> None:
    run = start()
    np.random.seed(1)
    for _ in run.epochs(1):
        list(run.batches(range(2)))
        break
    for _ in run.steps(run.step + 2):
        np.random.rand()
    expected = np.random.rand()
    run.close()
    run = start()
    assert np.random.rand() == expected


def test_a_batch_samplers_own_generator_is_found(start: Start) -> None:
    data = pytest.importorskip("torch.utils.data")

    def make() -> Loaders:
        sampler = data.RandomSampler(range(SIZE), generator=torch.Generator().manual_seed(5))
        loader = data.DataLoader(torch.arange(SIZE), batch_sampler=data.BatchSampler(sampler, 2, drop_last=False))
        return lambda epoch: [loader]

    seen = read_in_attempts(start, make, 8)
    assert_each_once(seen)
    assert seen[1] != seen[2]


def test_the_sampler_of_a_batch_sampler_is_told_the_epoch(start: Start) -> None:
    data = pytest.importorskip("torch.utils.data")

    def make() -> Loaders:
        sampler = data.DistributedSampler(range(SIZE), num_replicas=1, rank=0, seed=5)
        loader = data.DataLoader(torch.arange(SIZE), batch_sampler=data.BatchSampler(sampler, 2, drop_last=False))
        return lambda epoch: [loader]

    seen = read_in_attempts(start, make, 8)
    assert_each_once(seen)
    assert seen[1] != seen[2]


def begin_and_end_in_the_middle(start: Start, loader: Iterable[Any]) -> None:
    assert not attempt(start, lambda: lambda epoch: [loader], {}, 2)


def test_a_sampler_that_gives_another_order_is_refused_in_the_middle_of_an_epoch(start: Start) -> None:
    begin_and_end_in_the_middle(start, lastgood.ResumableSampler(SIZE, batch_size=2, seed=3))
    for size, settings, difference in (
        (SIZE + 4, {"seed": 3}, "size was 12 and is 16"),
        (SIZE, {"seed": 4}, "seed was 3 and is 4"),
        (SIZE, {"shuffle": False}, "shuffle was True and is False"),
    ):
        run = start()
        with pytest.raises(StateMismatchError, match=difference) as caught:
            for _ in run.epochs(EPOCHS):
                list(run.batches(lastgood.ResumableSampler(size, batch_size=2, **settings)))  # type: ignore[arg-type]
        assert caught.value.safe == "the checkpoint is whole"
        assert "at an epoch's end" in caught.value.remedy
        run.close()


def test_a_plain_loader_in_place_of_a_resumable_sampler_is_refused_in_the_middle_of_an_epoch(start: Start) -> None:
    sampler, plain = lastgood.ResumableSampler(SIZE, batch_size=2), range(6)
    for before, after in itertools.permutations((sampler, plain)):
        run = start(fresh=True)
        run.close()
        begin_and_end_in_the_middle(start, before)
        run = start()
        with pytest.raises(StateMismatchError, match="ResumableSampler"):
            for _ in run.epochs(EPOCHS):
                list(run.batches(after))
        run.close()


def test_another_order_is_fine_from_an_epochs_start_and_the_seed_where_nothing_is_shuffled(start: Start) -> None:
    run = start()
    for _ in run.epochs(1):
        list(run.batches(lastgood.ResumableSampler(SIZE, batch_size=2, seed=3)))
    run.close()
    seen: dict[int, list[int]] = {}
    for end, seed in ((8, 4), (9, 5), (-1, 6)):
        plain = lastgood.ResumableSampler(SIZE, batch_size=2, shuffle=False, seed=seed)
        attempt(start, lambda sampler=plain: lambda epoch: [sampler], seen, end)  # type: ignore[misc]
    assert seen == {2: list(range(SIZE))}


def test_a_checkpoint_without_what_decided_the_order_still_resumes(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were saved before."""
    sampler = lastgood.ResumableSampler(SIZE, batch_size=2, seed=3)
    seen: dict[int, list[int]] = {}

    def capture(position: Position) -> dict[str, Any]:
        return {name: value for name, value in vars(position).items() if name != "order"}

    def capture_random(reading: Reading) -> dict[str, Any]:
        return reading._now()

    def loaders(epoch: int) -> Iterable[Iterable[Any]]:
        np.random.rand()
        return [sampler]

    with monkeypatch.context() as before:
        before.setattr(Position, "capture", capture)
        before.setattr(Reading, "capture_random", capture_random)
        assert not attempt(start, lambda: loaders, seen, 2)
    assert attempt(start, lambda: loaders, seen, -1)
    assert_each_once(seen)
