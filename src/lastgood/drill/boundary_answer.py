"""What kills at the boundaries of a save have shown, and what each means. Pure."""

from enum import Enum

import msgspec

from lastgood.drill.fault import Answer, Tried


class Next(Enum):
    """What the start after the kill does."""

    RESUMED = "resumed"
    """From the checkpoint before the kill, or from the one that was being saved."""
    FELL_BACK = "fell back"
    """From a checkpoint that is older than the complete one before the kill."""
    OTHER_NUMBERS = "resumed, other numbers"
    """It says other things at the same steps than a run that was not killed: what it has read was torn."""
    FROM_ZERO = "from zero"
    """It begins at the first step and says nothing, although there was a complete checkpoint."""
    FAILS = "fails"
    """Also when it is started a second time: somebody has to delete something."""
    REFUSES = "refuses"
    """Our launcher or library refuses to start rather than to lose work."""
    HANGS = "hangs"
    NOT_HIT = "not hit"
    """The save did not come to this call."""
    NOT_TOLD = "not told"
    """Nothing shows from which step it went on."""


SOUND = (Next.RESUMED,)
UNKNOWN = (Next.NOT_HIT, Next.NOT_TOLD)


class Point(msgspec.Struct, frozen=True):
    """A kill right before one call of a save."""

    number: int
    """Of the call within the save, from 1."""
    where: str
    """In words: after which call, before which."""
    who: str
    """Who asked for the call and was killed: "the program", "the keeper"."""
    what: Next
    step: int | None = None
    """After which it went on."""
    said: str = ""
    """The last thing that it said, where it failed or refused."""

    @property
    def is_sound(self) -> bool | None:
        return None if self.what in UNKNOWN else self.what in SOUND

    @property
    def text(self) -> str:
        """As in "the next start fails: EOFError: Ran out of input"."""
        match self.what:
            case Next.RESUMED:
                return f"the next start resumes from step {self.step}"
            case Next.FELL_BACK:
                return f"the next start resumes from step {self.step}, and a newer checkpoint was complete"
            case Next.OTHER_NUMBERS:
                return f"the next start resumes from step {self.step}, and then computes other numbers: {self.said}"
            case Next.FROM_ZERO:
                return "the next start begins from zero and says nothing of it"
            case Next.FAILS:
                return f"the next start fails: {self.said}"
            case Next.REFUSES:
                return f"the next start refuses: {self.said}"
            case Next.HANGS:
                return "the next start does nothing until the limit"
            case Next.NOT_HIT:
                return "the save did not come to this call"
            case Next.NOT_TOLD:
                return "nothing tells from which step the next start went on"

    def as_tried(self, checkpoint_step: int | None) -> Tried:
        """For the drill's table. `checkpoint_step`: after which a start goes on that follows no kill."""
        answers = {True: Answer.PASS, False: Answer.FAIL, None: Answer.UNKNOWN}
        lost = None
        if self.step is not None and checkpoint_step is not None:
            lost = max(checkpoint_step - self.step, 0)
        return Tried(
            what=f"call {self.number} of the save, {self.who} killed: {self.where}",
            answer=answers[self.is_sound],
            reason=self.text,
            resumed_step=self.step,
            lost_steps=lost,
            evidence={
                "call": self.number,
                "who": self.who,
                "where": self.where,
                "next": self.what.value,
                "said": self.said,
            },
        )
