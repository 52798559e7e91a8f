"""What a rule is: a question to one kind of file, with the words and examples that explain it."""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

from lastgood.audit.source import Edit, Span

if TYPE_CHECKING:
    from lastgood.audit.policy import Policy
    from lastgood.audit.python.program import Program


class Severity(IntEnum):
    """What a finding means for the work, the worst last."""

    NOTE = 1
    WASTEFUL = 2
    MAY_BE_LOST = 3
    LOST = 4

    def __str__(self) -> str:
        return _IN_WORDS[self]


_IN_WORDS = {
    Severity.NOTE: "note",
    Severity.WASTEFUL: "wasteful",
    Severity.MAY_BE_LOST: "work may be lost",
    Severity.LOST: "work is lost",
}


class Context(msgspec.Struct, frozen=True):
    """What is known beside the file: the cluster's rules, and how long a checkpoint takes to write."""

    policy: "Policy | None" = None
    write_s: float | None = None
    """As the user states it; None: nobody said."""
    find_program: "Callable[[str, str], Program | None]" = lambda near, path: None
    """The Python program at a path as a script writes it, looked for beside the script `near` and in the directories
    above; None if there is none or it cannot be read. Tells whether a program handles a signal, or resumes."""
    read_text: Callable[[str, str], str | None] = lambda near, path: None
    """Any other file that a script names, such as an application's input, looked for beside the script `near` and
    where the script moves to; None if there is none or it cannot be read."""


class Hit(msgspec.Struct, frozen=True):
    """One finding of a rule."""

    span: Span
    message: str
    """What is there, and what happens in which failure. One or two sentences, without a period at the end."""
    remedy: str
    """What to write instead, to be pasted where possible."""
    severity: Severity | None = None
    """None: the rule's."""
    edits: tuple[Edit, ...] = ()
    """Mend it, without any doubt that they are right: `--fix` applies them. Never where the meaning could change in a
    way that the user may not want."""
    path: str = ""
    """The file that the span is in, for a model that is read from several; empty: the model's own."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule; its texts are its page, its examples its tests."""

    code: str
    """LG and three digits; the first is the family. Never used for anything else again."""
    name: str
    """A few words joined by dashes, such as `requeue-without-resume`."""
    severity: Severity
    what: str
    """What it looks for, in a sentence."""
    why: str
    """Which failure costs what, and why."""
    bad: str
    """A whole file in which it finds something."""
    good: str
    """The same, mended."""
    safe_to_ignore: str
    """When it is right to leave it as it is."""
    source: str
    """Manual page, paper, report or observation that it rests on."""
    reads: type
    """The model of a file that `check` is given: BatchScript, Manifest, Program or Policy."""
    check: Callable[[Any, Context], Iterator[Hit]]
    policy: str = ""
    """A slurm.conf that the examples need."""
    write_s: float | None = None
    """A write time that the examples need."""

    @property
    def family(self) -> str:
        return FAMILIES[self.code[2]]

    def __reduce__(self) -> tuple[Callable[[str], "Rule"], tuple[str]]:
        # Findings go from process to process with the rule's code only.
        from lastgood.audit.rules import rule_of

        return rule_of, (self.code,)


FAMILIES = {
    "0": "reading",
    "1": "requeue",
    "2": "paths",
    "3": "logs",
    "4": "signals",
    "5": "ranks",
    "6": "resume",
    "7": "limits",
    "8": "kubernetes",
    "9": "policy",
}
"""The digit behind LG, and what its rules are about."""
