"""From a shell script's syntax tree to its commands.

Parsed with tree-sitter-bash. What cannot be parsed is left out, and its place is named.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from lastgood.audit.batch.shell import Around, Assignment, Command, HereDoc, Loop, Redirect, Shell, Trap, signal_name
from lastgood.audit.batch.words import Word, parsable, word_of
from lastgood.audit.source import Source, Span

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_DEEPEST = 200
_LOCAL = ("local", "declare", "typeset")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SHELLS = ("bash", "sh", "dash", "zsh")
_CHANGES = frozenset(("++", "--", "=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="))
_READERS = ("read", "mapfile", "readarray", "getopts")


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class Reader:
    """Walks through the syntax tree and writes down what it finds, in the order of the text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.shell = Shell([], [], [], {}, [], [])
        self.is_local = False
        self.base = 0
        self.depth = 0

    def read(self, begin: int, end: int, around: Around) -> None:
        outer, self.base = self.base, begin
        self._walk(_parser().parse(parsable(self.source.data[begin:end])).root_node, around)
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
                self._walk(child, _in_background(children, i, around))

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
        """Commands in a string that a shell runs, this one or one that is started, also behind `srun` and its like."""
        name, around = command.name, command.around
        if name == "trap":
            self._trap(command)
        elif name in _READERS or (name == "printf" and command.has_word("-v")):
            for word in command.arguments:
                if _NAME.fullmatch(word.text):
                    self._unknown(word.begin, word.end, around)
        elif name == "let":
            for word in command.arguments:
                changed = _NAME.match(word.text)
                if changed is not None and self.source.data[word.begin : word.begin + 1] not in (b"'", b'"'):
                    self._unknown(word.begin, word.begin + changed.end(), around)
        elif name == "eval":
            self._eval(command, msgspec.structs.replace(around, within="eval", outer=command))
        string = _string_of_shell(command.words)
        if string is not None:
            self._read_string(string, msgspec.structs.replace(around, within="-c", outer=command))

    def _eval(self, command: Command, around: Around) -> None:
        arguments = command.arguments
        if len(arguments) > 1 and all(self.source.data[w.begin : w.begin + 1] not in (b"'", b'"') for w in arguments):
            # eval joins its words to one line.
            self.read(arguments[0].begin, arguments[-1].end, around)
        else:
            for word in arguments:
                self._read_string(word, around)

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
                signals=tuple(signal_name(word.text) for word in signals),
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
                length = 1 + _stages(child)
                is_piped = child.type == "pipeline"
                inside = msgspec.structs.replace(around, pipe_position=1, pipe_length=length) if is_piped else around
                self._walk(child, inside)

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
        else:
            word = word_of(value, self.source, self.base)
        text = self._text(name) if name is not None else ""
        is_array = value is not None and value.type == "array"
        return Assignment(
            text, word, self.source.span(begin, end), begin, end, is_appended, around, self.is_local, is_array
        )

    def _on_declaration_command(self, node: "Node", around: Around) -> None:
        """`local A=1`, `export A=1` and the like."""
        outer, self.is_local = self.is_local, bool(node.children) and self._text(node.children[0]) in _LOCAL
        self._on_other(node, around)
        self.is_local = outer

    def _on_unset_command(self, node: "Node", around: Around) -> None:
        for child in node.children:
            if child.type == "variable_name":
                self._unknown(self.base + child.start_byte, self.base + child.end_byte, around)

    def _on_binary_expression(self, node: "Node", around: Around) -> None:
        """`((i += 2))`, `((i++))`: only a run can tell."""
        changed = next((child for child in node.children if child.type in ("variable_name", "word")), None)
        if changed is not None and any(child.type in _CHANGES for child in node.children):
            self._unknown(self.base + changed.start_byte, self.base + changed.end_byte, around)
        self._on_other(node, around)

    _on_postfix_expression = _on_unary_expression = _on_binary_expression

    def _unknown(self, begin: int, end: int, around: Around) -> None:
        """From here on nothing is known of the variable that is named here."""
        name, span = self.source.text(begin, end), self.source.span(begin, end)
        self.shell.assignments.append(Assignment(name, None, span, begin, end, False, around))

    def _substitutions(self, node: "Node", around: Around) -> None:
        """Walk into each `$(...)`, however deep it stands."""
        if self.depth > _DEEPEST:
            self.shell.unreadable.append(self._span(node))
            return
        self.depth += 1
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._on_other(child, msgspec.structs.replace(around, in_substitution=True, rescued_by=""))
            elif child.child_count:
                self._substitutions(child, around)
        self.depth -= 1

    def _on_comment(self, node: "Node", around: Around) -> None:
        pass

    def _on_pipeline(self, node: "Node", around: Around) -> None:
        # A pipe with a redirection in its middle, or behind the first line of a here-document, is a pipe in a pipe.
        is_part = node.parent is not None and self._is_in_pipe(node.parent)
        position = around.pipe_position if is_part else 0
        length = around.pipe_length if is_part else _stages(node)
        for child in node.children:
            if child.is_named:
                self._walk(child, msgspec.structs.replace(around, pipe_position=position, pipe_length=length))
                position += _stages(child)

    def _is_in_pipe(self, node: "Node") -> bool:
        if node.type == "redirected_statement":
            return node.parent is not None and self._is_in_pipe(node.parent)
        return node.type in ("pipeline", "heredoc_redirect")

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
        for i, child in enumerate(node.children):
            if child.is_named:
                is_condition = node.field_name_for_child(i) == "condition"
                where = {"is_condition": True} if is_condition else {"is_conditional": True}
                self._walk(child, _in_background(node.children, i, msgspec.structs.replace(around, **where)))

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
        variable = node.child_by_field_name("variable")
        if variable is not None:
            self._unknown(self.base + variable.start_byte, self.base + variable.end_byte, around)
        for child in node.children:
            if not child.is_named:
                continue
            if child.type == "do_group":
                self._walk(child, msgspec.structs.replace(around, loops=(*around.loops, loop)))
            elif child in head and kind != "for":
                # It runs as often as the loop does.
                self._walk(child, msgspec.structs.replace(around, is_condition=True, loops=(*around.loops, loop)))
            elif child.type == "command_substitution":
                self._on_other(child, msgspec.structs.replace(around, in_substitution=True))


def _string_of_shell(words: Sequence[Word]) -> Word | None:
    """What a shell among the words is given to run with `-c`."""
    for i, word in enumerate(words):
        if word.text.rpartition("/")[2] in _SHELLS:
            for option, following in zip(words[i + 1 :], words[i + 2 :], strict=False):
                if not option.text.startswith("-"):
                    break
                if option.text.endswith("c") and not option.text.startswith("--"):
                    return following
    return None


def _stages(node: "Node", depth: int = 0) -> int:
    """Commands of a pipe; 1 for all else."""
    if depth > _DEEPEST:
        return 1
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        return 1 if body is None else _stages(body, depth + 1)
    if node.type != "pipeline":
        return 1
    return sum(_stages(child, depth + 1) for child in node.children if child.is_named)


def _in_background(siblings: "list[Node]", i: int, around: Around) -> Around:
    is_background = i + 1 < len(siblings) and siblings[i + 1].type == "&"
    return msgspec.structs.replace(around, is_background=True) if is_background else around
