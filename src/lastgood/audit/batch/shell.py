"""What a shell script does, command by command, with the surroundings of each: from its syntax tree.

Parsed with tree-sitter-bash. What cannot be parsed is left out, and its place is named.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from lastgood.audit.batch.words import Word, word_of
from lastgood.audit.source import Source, Span

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_DEEPEST = 200


class Redirect(msgspec.Struct, frozen=True):
    operator: str
    """As it is written, such as ">", "2>>", "&>"."""
    target: Word


class Assignment(msgspec.Struct, frozen=True):
    name: str
    value: Word | None
    """None for arrays and the like."""
    span: Span
    begin: int
    end: int
    is_appended: bool
    around: "Around"


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


class Command(msgspec.Struct, frozen=True):
    """One simple command."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    """Those in front of it, which hold for it alone."""
    redirects: tuple[Redirect, ...]
    span: Span
    begin: int
    end: int
    around: Around

    @property
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
    reader = _Reader(source)
    reader.read(begin, len(source.data) if end is None else end, Around())
    return reader.shell


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.shell = Shell([], [], [], {}, [], [])
        self.base = 0
        self.depth = 0

    def read(self, begin: int, end: int, around: Around) -> None:
        outer, self.base = self.base, begin
        self._walk(_parser().parse(self.source.data[begin:end]).root_node, around)
        self.base = outer

    def _text(self, node: "Node") -> str:
        return self.source.text(self.base + node.start_byte, self.base + node.end_byte)

    def _span(self, node: "Node") -> Span:
        return self.source.span(self.base + node.start_byte, self.base + node.end_byte)

    def _walk(self, node: "Node", around: Around) -> None:
        if self.depth > _DEEPEST:
            self.shell.unreadable.append(self._span(node))
            return
        self.depth += 1
        if node.is_error or node.is_missing:
            self.shell.unreadable.append(self._span(node))
        visit = getattr(self, f"_on_{node.type}", self._on_other)
        visit(node, around)
        self.depth -= 1

    def _on_other(self, node: "Node", around: Around) -> None:
        children = node.children
        for i, child in enumerate(children):
            if child.is_named or child.is_error:
                is_background = i + 1 < len(children) and children[i + 1].type == "&"
                inside = msgspec.structs.replace(around, is_background=True) if is_background else around
                self._walk(child, inside)

    def _on_command(self, node: "Node", around: Around, redirects: tuple[Redirect, ...] = ()) -> None:
        words, prefix, own = [], [], list(redirects)
        for child in node.children:
            if child.type == "variable_assignment":
                prefix.append(self._assignment(child, around))
            elif child.type in ("file_redirect", "herestring_redirect"):
                own += self._redirect(child)
            elif child.is_named:
                words.append(word_of(child, self.source, self.base))
        begin, end = self.base + node.start_byte, self.base + node.end_byte
        command = Command(tuple(words), tuple(prefix), tuple(own), self.source.span(begin, end), begin, end, around)
        self.shell.commands.append(command)
        self._substitutions(node, around)
        self._in_strings(command)

    def _in_strings(self, command: Command) -> None:
        """Commands in a string that the shell runs."""
        name, around = command.name, command.around
        if name == "trap":
            self._trap(command)
        elif name == "eval":
            for word in command.arguments:
                self._read_string(word, msgspec.structs.replace(around, within="eval"))
        elif name in ("bash", "sh", "dash", "zsh"):
            for option, word in zip(command.arguments, command.arguments[1:], strict=False):
                if option.text.startswith("-") and option.text.endswith("c"):
                    self._read_string(word, msgspec.structs.replace(around, within="-c"))
                    break

    def _read_string(self, word: Word, around: Around) -> None:
        raw = self.source.data[word.begin : word.end]
        if raw[:1] in (b"'", b'"') and raw[-1:] == raw[:1] and len(raw) > 1:
            self.read(word.begin + 1, word.end - 1, around)
        elif word.is_literal:
            self.read(word.begin, word.end, around)

    def _trap(self, command: Command) -> None:
        arguments = [word for word in command.arguments if word.text != "--"]
        if not arguments or (arguments[0].text.startswith("-") and arguments[0].text != "-"):
            return
        before = len(self.shell.commands)
        action = arguments[0]
        is_reset = action.text == "-" or len(arguments) == 1
        if not is_reset:
            self._read_string(action, Around(within="trap"))
        signals = arguments[1:] if len(arguments) > 1 else arguments
        self.shell.traps.append(
            Trap(
                signals=tuple(_signal_name(word.text) for word in signals),
                body=tuple(self.shell.commands[before:]),
                is_ignore=action.text == "" and action.is_literal and not is_reset,
                is_reset=is_reset,
                command=command,
            )
        )

    def _on_redirected_statement(self, node: "Node", around: Around) -> None:
        redirects: list[Redirect] = []
        heredocs = []
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                redirects += self._redirect(child)
            elif child.type == "heredoc_redirect":
                heredocs.append(child)
                redirects += [
                    r for inner in child.children if inner.type == "file_redirect" for r in self._redirect(inner)
                ]
        body = node.child_by_field_name("body")
        owner = None
        if body is not None:
            before = len(self.shell.commands)
            if body.type == "command":
                self._on_command(body, around, tuple(redirects))
            else:
                self._walk(body, around)
            owner = self.shell.commands[before] if len(self.shell.commands) > before else None
        for child in heredocs:
            self._heredoc(child, owner, around)
        for child in node.children:
            if child.is_error:
                self._walk(child, around)

    def _heredoc(self, node: "Node", owner: Command | None, around: Around) -> None:
        for child in node.children:
            if child.type == "heredoc_body":
                begin = self.base + child.start_byte
                self.shell.heredocs.append(HereDoc(owner, begin, self.base + child.end_byte))
            elif child.type in ("pipeline", "list", "command", "redirected_statement"):
                self._walk(child, around)

    def _redirect(self, node: "Node") -> Iterator[Redirect]:
        target = node.child_by_field_name("destination") or (node.children[-1] if node.children else None)
        if target is not None:
            operator = self.source.text(self.base + node.start_byte, self.base + target.start_byte).strip()
            yield Redirect(operator, word_of(target, self.source, self.base))

    def _on_variable_assignment(self, node: "Node", around: Around) -> None:
        self.shell.assignments.append(self._assignment(node, around))
        self._substitutions(node, around)

    def _assignment(self, node: "Node", around: Around) -> Assignment:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        is_appended = any(child.type == "+=" for child in node.children)
        begin, end = self.base + node.start_byte, self.base + node.end_byte
        word: Word | None = None
        if value is None:
            word = Word((), self.source.span(end, end), end, end)
        elif value.type != "array":
            word = word_of(value, self.source, self.base)
        text = self._text(name) if name is not None else ""
        return Assignment(text, word, self.source.span(begin, end), begin, end, is_appended, around)

    def _substitutions(self, node: "Node", around: Around) -> None:
        """Walk into `$(...)` at any depth."""
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._on_other(child, msgspec.structs.replace(around, in_substitution=True, rescued_by=""))
            elif child.child_count:
                self._substitutions(child, around)

    def _on_comment(self, node: "Node", around: Around) -> None:
        pass

    def _on_pipeline(self, node: "Node", around: Around) -> None:
        stages = [child for child in node.children if child.is_named]
        for i, child in enumerate(stages):
            # A pipe that is written in a longer one is one pipe.
            self._walk(child, msgspec.structs.replace(around, pipe_position=i, pipe_length=len(stages)))

    def _on_list(self, node: "Node", around: Around) -> None:
        stages = [child for child in node.children if child.is_named]
        operator = next((child.type for child in node.children if child.type in ("&&", "||")), "")
        for i, child in enumerate(stages):
            inside = around
            if i == 0 and len(stages) > 1:
                if operator == "||":
                    inside = msgspec.structs.replace(around, rescued_by=self._text(stages[1]))
                else:
                    inside = msgspec.structs.replace(around, is_condition=True)
            elif i > 0:
                inside = msgspec.structs.replace(around, is_conditional=True)
            self._walk(child, inside)

    def _on_negated_command(self, node: "Node", around: Around) -> None:
        self._on_other(node, msgspec.structs.replace(around, is_condition=True))

    def _on_subshell(self, node: "Node", around: Around) -> None:
        self._on_other(node, msgspec.structs.replace(around, in_subshell=True))

    def _on_function_definition(self, node: "Node", around: Around) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        text = self._text(name) if name is not None else ""
        self.shell.functions[text] = self._span(node)
        if body is not None:
            self._walk(body, Around(function=text))

    def _on_if_statement(self, node: "Node", around: Around) -> None:
        is_behind_then = False
        for i, child in enumerate(node.children):
            is_behind_then = is_behind_then or child.type == "then"
            if child.is_named:
                is_condition = node.field_name_for_child(i) == "condition"
                self._walk(
                    child,
                    msgspec.structs.replace(
                        around, **({"is_condition": True} if is_condition else {"is_conditional": True})
                    ),
                )

    _on_elif_clause = _on_if_statement

    def _on_case_item(self, node: "Node", around: Around) -> None:
        self._on_other(node, msgspec.structs.replace(around, is_conditional=True))

    def _on_while_statement(self, node: "Node", around: Around) -> None:
        self._loop(node, around, self._text(node.children[0]) if node.children else "while")

    def _on_for_statement(self, node: "Node", around: Around) -> None:
        self._loop(node, around, "for")

    _on_c_style_for_statement = _on_for_statement

    def _loop(self, node: "Node", around: Around, kind: str) -> None:
        fields = "condition" if kind != "for" else "value"
        head = [child for child in node.children_by_field_name(fields) if child.is_named]
        loop = Loop(kind, " ".join(self._text(child) for child in head), self._span(node))
        for child in node.children:
            if not child.is_named:
                continue
            if child.type == "do_group":
                self._walk(child, msgspec.structs.replace(around, loops=(*around.loops, loop)))
            elif child in head and kind != "for":
                self._walk(child, msgspec.structs.replace(around, is_condition=True))
            elif child.type == "command_substitution":
                self._on_other(child, msgspec.structs.replace(around, in_substitution=True))


def _signal_name(text: str) -> str:
    """
    >>> [_signal_name(t) for t in ("SIGTERM", "usr1", "15", "0")]
    ['TERM', 'USR1', 'TERM', 'EXIT']
    """
    name = text.upper().removeprefix("SIG")
    return _NUMBERS.get(name, name)


_NUMBERS = {
    "0": "EXIT", "1": "HUP", "2": "INT", "3": "QUIT", "6": "ABRT", "9": "KILL", "10": "USR1", "12": "USR2",
    "14": "ALRM", "15": "TERM", "18": "CONT", "24": "XCPU",
}  # fmt: skip
