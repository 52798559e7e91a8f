"""The order of samples: each exactly once per epoch over all ranks, wherever a job goes on and with how many ranks."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import ResumableSampler
from lastgood.core.errors import UsageError

sizes = st.integers(1, 200)
batch_sizes = st.integers(1, 17)
world_sizes = st.integers(1, 6)
seeds = st.integers(-(2**70), 2**70)


def make_ranks(size: int, batch_size: int, world_size: int, **settings: object) -> list[ResumableSampler]:
    return [
        ResumableSampler(size, batch_size=batch_size, rank=rank, world_size=world_size, **settings)  # type: ignore[arg-type]
        for rank in range(world_size)
    ]


def read(ranks: list[ResumableSampler], epoch: int, done: int = 0) -> list[list[list[int]]]:
    """For each global step the batches of all ranks."""
    for sampler in ranks:
        sampler.begin(epoch, done)
    by_rank = [[batch.tolist() for batch in sampler] for sampler in ranks]
    assert len({len(batches) for batches in by_rank}) == 1, "a rank would wait for the others"
    return [list(step) for step in zip(*by_rank, strict=True)]


def samples(steps: list[list[list[int]]]) -> list[int]:
    return [index for step in steps for batch in step for index in batch]


@given(sizes, batch_sizes, world_sizes, seeds, st.booleans(), st.booleans(), st.integers(1, 10))
def test_every_sample_exactly_once_but_for_a_last_step_that_is_left_out(
    size: int, batch_size: int, world_size: int, seed: int, shuffle: bool, drop_last: bool, epoch: int
) -> None:
    ranks = make_ranks(size, batch_size, world_size, seed=seed, shuffle=shuffle, drop_last=drop_last)
    steps = read(ranks, epoch)
    rest = size % (batch_size * world_size)
    left_out = rest if drop_last or rest < world_size else 0
    used = samples(steps)
    assert len(used) == len(set(used)) == size - left_out
    assert set(used) <= set(range(size))
    assert used == ranks[0].order(epoch).tolist()[: len(used)]


@given(sizes, batch_sizes, world_sizes, seeds)
def test_no_batch_is_empty_or_too_large_and_only_the_last_step_is_uneven(
    size: int, batch_size: int, world_size: int, seed: int
) -> None:
    steps = read(make_ranks(size, batch_size, world_size, seed=seed), 1)
    for step in steps[:-1]:
        assert [len(batch) for batch in step] == [batch_size] * world_size
    for step in steps[-1:]:
        lengths = [len(batch) for batch in step]
        assert min(lengths) >= 1
        assert max(lengths) <= batch_size
        assert max(lengths) - min(lengths) <= 1


@given(sizes, seeds, st.data())
def test_another_number_of_ranks_goes_on_with_the_rest_exactly_once(size: int, seed: int, data: st.DataObject) -> None:
    """As often as one likes within the epoch, each time after any number of global steps."""
    used: list[int] = []
    done = 0
    for _ in range(data.draw(st.integers(1, 4))):
        batch_size, world_size = data.draw(batch_sizes), data.draw(world_sizes)
        ranks = make_ranks(size, batch_size, world_size, seed=seed)
        steps = read(ranks, 3, done)
        steps = steps[: data.draw(st.integers(0, len(steps)))]
        used += samples(steps)
        done = ranks[0].samples_after(done, len(steps))
        assert done == len(used)
    used += samples(read(make_ranks(size, 7, 1, seed=seed), 3, done))
    assert sorted(used) == list(range(size))


@given(sizes, batch_sizes, world_sizes, st.booleans(), st.data())
def test_its_length_is_the_number_of_batches_that_the_next_iteration_yields(
    size: int, batch_size: int, world_size: int, drop_last: bool, data: st.DataObject
) -> None:
    for sampler in make_ranks(size, batch_size, world_size, drop_last=drop_last):
        steps = data.draw(st.integers(0, size // sampler.samples_per_step))
        done = sampler.samples_after(0, steps)
        sampler.begin(2, done)
        assert len(sampler) == sampler.batches_after(done) == len(list(sampler))
        assert len(sampler) == len(list(sampler)), "the iteration after it is a whole epoch again"
        assert sampler.batches_after(0) == steps + sampler.batches_after(done)


def test_the_order_of_a_seed_never_changes_between_versions() -> None:
    sampler = ResumableSampler(10, batch_size=4, seed=7)
    assert sampler.order(1).tolist() == [3, 9, 1, 6, 2, 5, 4, 8, 0, 7]
    assert sampler.order(2).tolist() == [6, 7, 8, 4, 0, 1, 5, 3, 9, 2]
    assert ResumableSampler(10, batch_size=3, seed=-1, rank=1, world_size=2).order(1).tolist() == [
        3,
        8,
        7,
        2,
        5,
        4,
        9,
        0,
        6,
        1,
    ]


def test_the_order_is_a_matter_of_seed_and_epoch_alone() -> None:
    first = ResumableSampler(50, batch_size=4, seed=1)
    second = ResumableSampler(50, batch_size=9, seed=1, rank=2, world_size=3, drop_last=True)
    np.random.seed(1)
    list(first)
    for epoch in (5, 1, 3):
        assert first.order(epoch).tolist() == second.order(epoch).tolist()


def test_epochs_and_seeds_differ_and_without_shuffling_none_does() -> None:
    orders = [
        ResumableSampler(50, batch_size=4, seed=seed).order(epoch).tolist() for seed in (0, 1) for epoch in (1, 2)
    ]
    assert all(orders[i] != orders[j] for i in range(4) for j in range(i))
    plain = ResumableSampler(50, batch_size=4, shuffle=False)
    assert plain.order(1).tolist() == plain.order(2).tolist() == list(range(50))


def test_each_place_in_the_order_is_equally_likely_for_each_sample() -> None:
    """Chi-squared over 2000 epochs: 16 cells of freedom (4 x 4), and 50 is beyond any doubt."""
    counts = np.zeros((5, 5))
    sampler = ResumableSampler(5, batch_size=1, seed=3)
    for epoch in range(2000):
        for place, index in enumerate(sampler.order(epoch)):
            counts[place, index] += 1
    assert float(((counts - 400) ** 2 / 400).sum()) < 50


def test_one_iteration_is_not_moved_by_another() -> None:
    sampler = ResumableSampler(20, batch_size=4, seed=1)
    sampler.begin(2, 4)
    first = iter(sampler)
    begun = [next(first).tolist()]
    sampler.begin(3)
    other = [batch.tolist() for batch in sampler]
    begun += [batch.tolist() for batch in first]
    assert list(chain(*begun)) == sampler.order(2).tolist()[4:]
    assert list(chain(*other)) == sampler.order(3).tolist()


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        (0, {"batch_size": 1}),
        (-1, {"batch_size": 1}),
        (5, {"batch_size": 0}),
        (5, {"batch_size": 1, "rank": 1}),
        (5, {"batch_size": 1, "rank": -1, "world_size": 2}),
        (5, {"batch_size": 1, "world_size": 0}),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_values(size: int, settings: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=rf"size={size}, batch_size={settings['batch_size']}"):
        ResumableSampler(size, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.uint8])
def test_numbers_of_numpy_mean_what_they_say(kind: type[np.integer]) -> None:
    ours = ResumableSampler(kind(10), batch_size=kind(4), seed=kind(7), rank=kind(0), world_size=kind(1))  # type: ignore[arg-type]
    assert ours.order(kind(2)).tolist() == ResumableSampler(10, batch_size=4, seed=7).order(2).tolist()  # type: ignore[arg-type]
    assert type(ours.samples_after(0, 1)) is int


@pytest.mark.parametrize("settings", [{"seed": 1.5}, {"seed": None}, {"batch_size": 2.0}, {"size": "9"}])
def test_what_is_no_whole_number_is_refused_by_name(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(UsageError, match=f"{name}={settings[name]!r}"):
        ResumableSampler(**{"size": 5, "batch_size": 1, **settings})


def test_the_place_is_taken_by_the_iteration_that_is_used_first() -> None:
    """A DataLoader with worker processes makes two, and uses the second."""
    sampler = ResumableSampler(20, batch_size=4, seed=1)
    sampler.begin(2, 12)
    iter(sampler)
    assert list(chain(*sampler)) == sampler.order(2).tolist()[12:]


def test_fewer_samples_than_ranks_is_an_epoch_without_steps() -> None:
    assert read(make_ranks(2, 1, 3), 1) == []


def test_a_dataloader_reads_by_it() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(10))
    sampler = ResumableSampler(10, batch_size=4, seed=7)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    assert len(loader) == 3
    batches = [batch.tolist() for (batch,) in loader]
    assert list(chain(*batches)) == sampler.order(1).tolist()
    assert [len(batch) for batch in batches] == [4, 4, 2]
