"""What a shell script does, command by command, with the surroundings of each: from its syntax tree.

Parsed with tree-sitter-bash. What cannot be parsed is left out, and its place is named.
"""

from functools import cached_property

import msgspec

from lastgood.audit.batch.words import Word
from lastgood.audit.source import Source, Span


class Redirect(msgspec.Struct, frozen=True):
    operator: str
    """As it is written, such as ">", "2>>", "&>"."""
    target: Word


class Assignment(msgspec.Struct, frozen=True):
    name: str
    value: Word | None
    """The elements of an array with a blank between them; None for what only a run can tell (`read`, `for`)."""
    span: Span
    begin: int
    end: int
    is_appended: bool
    around: "Around"
    is_local: bool = False
    """Known only in its function."""
    is_array: bool = False


class Loop(msgspec.Struct, frozen=True):
    kind: str
    """"while", "until" or "for"."""
    condition: str
    """As it is written; for `for` its words."""
    span: Span


class Around(msgspec.Struct, frozen=True):
    """Where in the script a command stands."""

    loops: tuple[Loop, ...] = ()
    function: str = ""
    is_conditional: bool = False
    """In a branch of `if` or `case`, or behind `&&` or `||`."""
    is_condition: bool = False
    """Its exit code is asked for by `if`, `while`, `until`, `!` or `&&`."""
    rescued_by: str = ""
    """What follows behind `||`, such as "true": its own failure does not end the script."""
    is_background: bool = False
    pipe_position: int = 0
    pipe_length: int = 1
    in_subshell: bool = False
    in_substitution: bool = False
    within: str = ""
    """"trap", "eval" or "-c" for a command in a string that is run."""
    outer: "Command | None" = None
    """The command that runs the string, for "eval" and "-c"."""


class Command(msgspec.Struct, frozen=True, dict=True):
    """One simple command."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    """Those in front of it, which hold for it alone."""
    redirects: tuple[Redirect, ...]
    span: Span
    begin: int
    end: int
    around: Around

    @cached_property
    def name(self) -> str:
        """Its first word without directories; empty if that is not literal."""
        return self.words[0].text.rpartition("/")[2] if self.words and self.words[0].is_literal else ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]

    def has_word(self, *texts: str) -> bool:
        return any(word.text in texts for word in self.words[1:])


class Trap(msgspec.Struct, frozen=True):
    signals: tuple[str, ...]
    """Without SIG, in upper case: "TERM", "USR1", "EXIT"."""
    body: tuple[Command, ...]
    """With what the functions do that it calls, where the script defines them."""
    is_ignore: bool
    """`trap '' TERM`: programs that are started afterwards ignore it, too."""
    is_reset: bool
    """`trap - TERM`"""
    command: Command

    @property
    def span(self) -> Span:
        return self.command.span


class HereDoc(msgspec.Struct, frozen=True):
    command: Command | None
    begin: int
    end: int


class Shell(msgspec.Struct):
    """A script in the order of its text."""

    commands: list[Command]
    assignments: list[Assignment]
    traps: list[Trap]
    functions: dict[str, Span]
    heredocs: list[HereDoc]
    unreadable: list[Span]
    """What the parser did not understand."""


def read_shell(source: Source, begin: int = 0, end: int | None = None) -> Shell:
    """Parse a source, or a part of it."""
    from lastgood.audit.batch.reader import Reader

    reader = Reader(source)
    reader.read(begin, len(source.data) if end is None else end, Around())
    reader.shell.traps = [_with_functions(trap, reader.shell) for trap in reader.shell.traps]
    return reader.shell


def _with_functions(trap: Trap, shell: Shell) -> Trap:
    body, entered = list(trap.body), set[str]()
    for command in body:
        # The list grows while it is walked: functions call functions.
        if command.name in shell.functions and command.name not in entered:
            entered.add(command.name)
            body += [other for other in shell.commands if other.around.function == command.name]
    return msgspec.structs.replace(trap, body=tuple(body))


def signal_name(text: str) -> str:
    """
    >>> [signal_name(t) for t in ("SIGTERM", "usr1", "15", "0")]
    ['TERM', 'USR1', 'TERM', 'EXIT']
    """
    name = text.upper().removeprefix("SIG")
    return _NUMBERS.get(name, name)


_NUMBERS = {
    "0": "EXIT", "1": "HUP", "2": "INT", "3": "QUIT", "6": "ABRT", "9": "KILL", "10": "USR1", "12": "USR2",
    "14": "ALRM", "15": "TERM", "18": "CONT", "24": "XCPU",
}  # fmt: skip
