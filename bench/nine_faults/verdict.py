"""From what a command did to one word. Pure: knows no system and no fault.

OK@n       resumed from step n and ended bit for bit as the uninterrupted run
same@n     the same result as a clean resume from step n, which is not exact with this system
DIVERGED@n resumed from step n, ended with other weights, and said nothing
ZERO       began at step 0 without complaint, although complete checkpoints existed
HARD       failed, and failed again when repeated: a person has to delete something
refused c  failed on purpose, with exit code c that is documented for this, and again when repeated
HUNG       did not end within the limit
unfinished ended with exit code 0 before all steps were done
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """One run of the command that a user would repeat."""

    code: int | None
    """Exit code, negative for a signal; None if it had to be killed because it did not end."""
    resumed: int | None
    """Step that its last life began from."""
    last_step: int
    final: str | None
    """Hash of the final weights, if it did all steps."""


@dataclass(frozen=True)
class Verdict:
    word: str
    step: int | None = None
    code: int | None = None

    def __str__(self) -> str:
        if self.step is not None:
            return f"{self.word}@{self.step}"
        return self.word if self.code is None else f"{self.word} {self.code}"

    @property
    def is_exact(self) -> bool:
        """As good as a clean resume is with this system."""
        return self.word in ("OK", "same")


def judge(
    tries: list[Outcome], *, uninterrupted: str, clean_resume: str | None, had_saved: bool, refusal: int
) -> Verdict:
    """What the last of the tries came to.

    `clean_resume` is the hash after an undisturbed resume from the same step; `had_saved` says that a complete
    checkpoint was made before; `refusal` is the exit code that is documented for refusing to start.
    """
    last = tries[-1]
    if last.code is None:
        return Verdict("HUNG")
    if last.code != 0:
        if all(outcome.code == refusal for outcome in tries):
            return Verdict("refused", code=refusal)
        return Verdict("HARD")
    if last.resumed == 0 and had_saved:
        return Verdict("ZERO")
    if last.final is None:
        return Verdict("unfinished")
    if last.final == uninterrupted:
        return Verdict("OK", last.resumed)
    return Verdict("same" if last.final == clean_resume else "DIVERGED", last.resumed)


def tally(verdicts: Iterable[object]) -> str:
    """`OK@40 17/18, OK@50 1/18`, the most frequent first; one verdict alone needs no count."""
    counts = Counter(str(verdict) for verdict in verdicts)
    total = sum(counts.values())
    if total == 1:
        return next(iter(counts))
    return ", ".join(f"{word} {count}/{total}" for word, count in counts.most_common())


def range_text(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"
