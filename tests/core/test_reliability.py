"""How often a job is interrupted, by a preset where nobody has said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.interval import efficiency, exact_interval_s
from lastgood.core.reliability import DAY_S, Mtti, mtti_of_nodes_s, preset_mtti


@given(st.integers(1, 100_000))
def test_the_preset_is_shorter_than_a_day_and_than_the_nodes_alone(nodes):
    preset = preset_mtti(nodes).seconds
    assert preset < min(DAY_S, mtti_of_nodes_s(nodes, 6.50))
    assert preset >= min(DAY_S, mtti_of_nodes_s(nodes, 6.50)) / 2
    assert preset_mtti(nodes + 1).seconds < preset


def test_it_says_that_it_is_a_preset():
    assert str(preset_mtti()) == "23 h 50 min (preset for 1 node)"
    assert preset_mtti(16).source == "preset for 16 nodes"


@pytest.mark.parametrize("stall", [0.1, 1.0, 10.0, 60.0])
def test_a_preset_that_is_too_dark_costs_little_and_one_too_bright_costs_more(stall):
    """The measured MTTF of one node was 47.7 days. Assuming a day then loses under 4 %, and for the usual stalls
    a fraction of a percent; assuming 47.7 days for a job that is interrupted daily loses much more."""
    month = 47.7 * DAY_S

    def lost(assumed, true):
        return efficiency(exact_interval_s(stall, true), stall, true) - efficiency(
            exact_interval_s(stall, assumed), stall, true
        )

    assert lost(DAY_S, month) < 0.0035 * max(1, (stall / 1.0) ** 0.5)
    assert lost(month, DAY_S) > 5 * lost(DAY_S, month)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_at_all_is_refused(seconds):
    with pytest.raises(ValueError, match="mean time"):
        Mtti(seconds, "stated")
