"""How many jobs of a limited length a long computation needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.segments import segments_for, usable_s


@given(st.floats(1, 1e7), st.floats(120, 1e6), st.floats(0, 3600))
def test_there_is_room_for_the_work_and_no_segment_too_many(work_s, limit_s, grace_s):
    usable = usable_s(limit_s, grace_s)
    if usable == 0:
        with pytest.raises(ValueError, match="no time"):
            segments_for(work_s, limit_s, grace_s)
        return
    count = segments_for(work_s, limit_s, grace_s)
    assert count * usable >= work_s * (1 - 1e-9)
    assert count == 1 or (count - 1) * usable < work_s


def test_the_grace_time_counts():
    assert segments_for(48 * 3600, 24 * 3600 + 120, 30) == 2
    assert segments_for(48 * 3600, 24 * 3600 + 120, 90) == 3
