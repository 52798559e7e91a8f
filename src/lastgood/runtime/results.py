"""What becomes of saves, and what a program asks of them."""

from typing import Literal

import msgspec

from lastgood.core.errors import LastgoodError
from lastgood.core.retention import Keep
from lastgood.core.writing import Writing

OnSaveError = Literal["stop", "warn"]


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint that exists. Sizes and times are known to rank 0."""

    step: int
    name: str = ""
    bytes: int = 0
    stall_s: float = 0.0
    """How long the loop stood still for it."""
    write_s: float = 0.0
    """From the beginning of the save to the commit."""


class Failed(msgspec.Struct, frozen=True):
    """A save that did not work while the policy says to carry on."""

    step: int
    error: LastgoodError


Result = Saved | Failed


class Settings(msgspec.Struct, frozen=True):
    """What the program asks for."""

    keep: Keep
    writing: Writing
    on_error: OnSaveError
    unprotected_limit_s: float
    limit_s: float
    """How long to wait for other ranks, and for storage."""
    overlap: bool = False
    """Copy beside the loop what only steps of optimizers change."""
