"""What came of a job under faults: the values that the measurements and the verdict are made from. Pure."""

import msgspec

from lastgood.core.accounting import Record
from lastgood.drill.fault import Consequence, Injected
from lastgood.drill.measure import Measured
from lastgood.drill.spec import Spec

NEVER_CAME = "the job had ended before its moment came"


class Struck(msgspec.Struct, frozen=True):
    """One fault of the plan, and what was seen of it."""

    number: int
    """From 1, in the order of the plan."""
    spec: Spec
    consequence: Consequence
    why_not: str = ""
    """Why it was not caused; empty if it was."""
    injected: Injected | None = None
    caught: str = ""
    """What showed that the program was in the phase that was asked for."""
    has_effect: bool | None = None
    """None: it cannot be told."""
    measured: Measured | None = None
    has_begun_again: bool = False
    """A later attempt has told the step that it goes on after, or has done one."""
    overwritten_step: int | None = None
    """Of a checkpoint that had been whole before, where none was whole any more at the harm."""
    resumed_name: str = ""
    """The checkpoint that the next start was handed, where the journal names it."""
    refused: str = ""
    """Why the next start refused to begin; empty if it did not."""
    healing_problem: str = ""
    requeued_s: float | None = None
    """From the harm until Slurm had started the job again, by its accounting; only of a job under Slurm."""


class Course(msgspec.Struct, frozen=True):
    """One run of the job, from its first start to its end, with what was done to it."""

    began_at: float
    took_s: float
    exit_code: int | None
    """Of the last start; None if it was ended by us."""
    starts: int
    final_step: int | None
    is_over_limit: bool = False
    """It was ended because its limit had passed."""
    is_ended_early: bool = False
    """It was ended because it had come through all faults, and no more was asked for."""
    ended_as: str = ""
    """What the launcher said of the last attempt, and why it did not go on."""
    struck: tuple[Struck, ...] = ()
    records: tuple[Record, ...] = ()
    start_s: float = 0.0
    """From the first start to the first step; 0 if no step was seen."""
    longest_silence_s: float = 0.0
    has_steps: bool = False
    """Something tells the steps."""
    first_saved_step: int | None = None
    has_checkpoints: bool | None = None
    """None: nothing tells whether it saves any."""
    last_words: tuple[str, ...] = ()
    """The end of what it printed."""
