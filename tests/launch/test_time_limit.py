"""The end of the allocation holds whatever somebody does to the wall clock."""

import pytest

from lastgood.launch.time_limit import TimeLimit


class Clocks:
    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def limit(self, limit_s: float, grace_s: float = 30.0) -> TimeLimit:
        return TimeLimit(self.wall + limit_s, grace_s, clock=lambda: self.steady, wall_clock=lambda: self.wall)

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_a_stop_is_due_the_grace_time_before_the_deadline(clocks: Clocks) -> None:
    limit = clocks.limit(3600.0)
    clocks.pass_time(3569.0)
    assert (limit.is_stop_due(), limit.left_s()) == (False, 31.0)
    clocks.pass_time(1.0)
    assert (limit.is_stop_due(), limit.left_s()) == (True, 30.0)
    clocks.pass_time(100.0)
    assert limit.left_s() == 0.0


def test_a_wall_clock_that_is_put_back_gains_no_time(clocks: Clocks) -> None:
    limit = clocks.limit(3600.0)
    clocks.pass_time(1000.0)
    clocks.wall -= 86_400.0
    clocks.pass_time(2570.0)
    assert (limit.is_stop_due(), limit.left_s()) == (True, 30.0)
    # Whoever reads the wall clock only now ends at the same moment.
    assert limit.deadline_by_wall_clock() - clocks.wall == limit.left_s()


def test_a_machine_that_slept_has_used_its_time(clocks: Clocks) -> None:
    limit = clocks.limit(3600.0)
    clocks.wall += 3590.0
    assert (limit.is_stop_due(), limit.left_s()) == (True, 10.0)
    assert limit.deadline_by_wall_clock() == 1_003_600.0
