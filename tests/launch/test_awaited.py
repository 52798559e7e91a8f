"""A command that cannot be asked to stop is ended at a checkpoint that is whole."""

from lastgood.launch.awaited import AwaitedSave
from lastgood.launch.ports import LastGood


def save(step: int, size: int = 100, *, tells_its_end: bool = False) -> LastGood:
    return LastGood("restart.dat", step, float(step), (float(step),), size, tells_its_end=tells_its_end)


def test_one_that_tells_its_end_counts_at_once() -> None:
    awaited = AwaitedSave(save(1, tells_its_end=True))
    assert not awaited.is_there(None)
    assert not awaited.is_there(save(1, tells_its_end=True))
    assert awaited.is_there(save(2, tells_its_end=True))


def test_one_that_does_not_has_to_stay_as_it_is_for_some_looks() -> None:
    awaited = AwaitedSave(save(1))
    growing = [awaited.is_there(save(2, size)) for size in range(50)]
    at_rest = [awaited.is_there(save(2, 49)) for _ in range(6)]
    assert not any(growing) and at_rest == [False] * 5 + [True]


def test_the_one_before_counts_never_however_long_it_stays() -> None:
    awaited = AwaitedSave(save(1))
    assert not any(awaited.is_there(save(1)) for _ in range(20))
    assert not awaited.is_there(save(2))
