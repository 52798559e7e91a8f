"""Where a difference begins after a resume, and what that says. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

Series = Mapping[int, Mapping[str, Any]]

_LEAST_REPEATED = 4
_MOST_COMPARED = 2000


class Onset(msgspec.Struct, frozen=True):
    step: int
    """The first that differs."""
    place: int
    """How many shown steps after the resume are equal."""
    name: str
    """The value."""

    def __str__(self) -> str:
        if self.place == 0:
            return (
                f"it differs from the first step after the resume on ({self.name} at step {self.step:,}): what this step uses "
                "was not put back, such as random state or the place in the data"
            )
        if self.place == 1:
            return (
                f"the first step after the resume is equal, the next is not ({self.name} at step {self.step:,}): the update "
                "between them was another one, such as with an optimizer that begins anew"
            )
        return (
            f"{self.place} steps after the resume are equal, then it differs ({self.name} at step {self.step:,}): something that "
            "acts later, such as a schedule, an average, or the data of the next epoch"
        )


def onset_of(left: Series, right: Series, resumed_from: int | None) -> Onset | None:
    """`left` is the undisturbed run. None if nothing differs, or no step was shown."""
    begin = resumed_from if resumed_from is not None else -1
    place = 0
    for step in sorted(left.keys() & right.keys()):
        differing = next((name for name, value in left[step].items() if right[step].get(name, value) != value), None)
        if differing is not None and step > begin - 1:
            return Onset(step, place, differing)
        place += step > begin
    return None


def repeated_stretch(left: Series, right: Series, resumed_from: int | None) -> str:
    """Whether what follows the resume equals an earlier stretch of the undisturbed run, other than its own: the data began
    again. Empty if not."""
    if resumed_from is None:
        return ""
    for name in dict.fromkeys(name for values in left.values() for name in values):
        after = [
            (step, values[name]) for step, values in sorted(right.items()) if step > resumed_from and name in values
        ]
        wanted = [value for _, value in after[:_LEAST_REPEATED]]
        own = [left.get(step, {}).get(name) for step, _ in after[:_LEAST_REPEATED]]
        if len(wanted) < _LEAST_REPEATED or len({str(value) for value in wanted}) < 3 or wanted == own:
            continue
        steps = [step for step, values in sorted(left.items()) if name in values][:_MOST_COMPARED]
        known = [left[step][name] for step in steps]
        for i in range(len(known) - _LEAST_REPEATED + 1):
            if known[i : i + _LEAST_REPEATED] == wanted:
                return (
                    f"{name} after the resume (from step {after[0][0]:,}) is what the undisturbed run had from step "
                    f"{steps[i]:,} on"
                )
    return ""
