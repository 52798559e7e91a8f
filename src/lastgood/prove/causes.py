"""Why a resumed run may not be equal, as a value."""

import msgspec


class Cause(msgspec.Struct, frozen=True):
    name: str
    """In a few words: "no random state in the checkpoint"."""
    evidence: tuple[str, ...]
    """What was seen that points to it."""
    remedy: str
    certainty: int = 0
    """Only for their order: 2 it was seen, 1 all points to it, 0 it may be."""
