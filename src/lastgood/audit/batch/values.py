"""What a script's variables hold at a place in it, as far as its text tells. Pure."""

import bisect
from collections.abc import Iterator, Sequence
from functools import cached_property

from lastgood.audit.batch.shell import Assignment, Command, Shell
from lastgood.audit.batch.words import MOST_PARTS, Part, Word, modified
from lastgood.audit.source import Source, Span

_DEEPEST = 40
"""Values of variables in values of variables."""
_LOOK_BACK = 200
_MOST_CHOICES = 12
_DEEPEST_CHOICE = 6
_MOST_LOOPS = 500


class Values:
    """Read from top to bottom: a value is what the last assignment above a place says.

    A function sees what is set above its last call, and its arguments if it is called once. What `read`, a loop or the
    caller sets is not known, and such a variable stays in the word.
    """

    def __init__(self, source: Source, shell: Shell) -> None:
        self.source = source
        self.shell = shell
        self.known: dict[int, Word | None] = {}
        self.chosen: dict[int, list[Word]] = {}

    def resolve(self, word: Word, limit: int, depth: int = 0) -> Word:
        if not word.variables:
            return word
        return word.with_values(lambda name: self._value(name, limit, depth))

    def choices(self, word: Word, limit: int, depth: int = 0) -> list[Word]:
        """A word with each of the values that branches above it can have given to its variables."""
        if len(word.parts) > MOST_PARTS:
            return [word]
        found: list[tuple[Part, ...]] = [()]
        for part in word.parts:
            options = self._options(part, limit, depth) if part.kind == "variable" else [(part,)]
            found = [(*head, *option) for head in found for option in options][:_MOST_CHOICES]
        return [word.of(parts) for parts in dict.fromkeys(found)]

    def _options(self, part: Part, limit: int, depth: int) -> Sequence[Sequence[Part]]:
        """All that a variable can stand for; itself where nothing above sets it in any case."""
        options: list[Sequence[Part]] = []
        for assignment in self._above(part.text, limit):
            values = [] if self._changes_in_loop(part.text, limit, assignment) else self._choices_of(assignment, depth)
            options += [modified(value.parts, part) for value in values] or [(part,)]
            if not assignment.around.is_conditional:
                return options
        return [*options, (part,)]

    def _choices_of(self, assignment: Assignment, depth: int) -> list[Word]:
        if assignment.begin not in self.chosen:
            value = assignment.value
            if value is None or assignment.is_appended or assignment.name in value.variables or depth > _DEEPEST_CHOICE:
                known = self._value_of(assignment, 0)
                found = [] if known is None else [known]
            else:
                found = self.choices(value, assignment.begin, depth + 1)
            self.chosen[assignment.begin] = found
        return self.chosen[assignment.begin]

    def _value(self, name: str, limit: int, depth: int) -> Word | None:
        if name.isdecimal():
            return self._argument(int(name), limit, depth)
        assignment = next(self._above(name, limit), None)
        if assignment is None or self._changes_in_loop(name, limit, assignment):
            return None
        return self._value_of(assignment, depth)

    def _changes_in_loop(self, name: str, offset: int, known: Assignment) -> bool:
        """True if a loop around the place sets the variable anew further down: it has that value from the second round on."""
        all_of_name, begins = self._by_name[name]
        for begin, end in self._loops:
            if begin <= offset < end and known.begin < begin:
                at = bisect.bisect_left(begins, offset)
                if at < len(all_of_name) and all_of_name[at].begin < end:
                    return True
        return False

    def _value_of(self, assignment: Assignment, depth: int) -> Word | None:
        if assignment.begin not in self.known:
            if depth > _DEEPEST:
                return None
            self.known[assignment.begin] = self._found(assignment, depth)
        return self.known[assignment.begin]

    def _found(self, assignment: Assignment, depth: int) -> Word | None:
        name, value = assignment.name, assignment.value
        if value is None or (assignment.around.loops and (assignment.is_appended or name in value.variables)):
            return None
        value = self.resolve(value, assignment.begin, depth + 1)
        if assignment.is_appended:
            before = self._value(name, assignment.begin, depth + 1)
            return None if before is None else before.beside(value, " " if assignment.is_array else "")
        # PATH=$PATH:x and the like.
        return None if name in value.variables else value

    def _above(self, name: str, limit: int) -> Iterator[Assignment]:
        """Assignments that can be seen at a place, the nearest first."""
        all_of_name, begins = self._by_name.get(name, ([], []))
        function = self._function_at(limit)
        own_limit, outer_limit = limit, self._last_call(function, limit) if function else limit
        at = bisect.bisect_left(begins, max(own_limit, outer_limit))
        seen = [
            a
            for a in reversed(all_of_name[max(0, at - _LOOK_BACK) : at])
            if (a.begin < own_limit if a.around.function == function else a.begin < outer_limit)
            and (a.around.function in ("", function) or not a.is_local)
        ]
        # What the function itself sets hides what is set outside of it.
        yield from sorted(seen, key=lambda a: a.around.function != function) if function else seen

    def _argument(self, number: int, limit: int, depth: int) -> Word | None:
        function = self._function_at(limit)
        calls = self._calls.get(function, [])
        if not function or len(calls) != 1 or not 0 < number < len(calls[0].words):
            return None
        word = calls[0].words[number]
        return self.resolve(word, word.begin, depth + 1) if depth <= _DEEPEST else None

    def _last_call(self, function: str, limit: int) -> int:
        calls = self._calls.get(function)
        return max(calls[-1].begin, limit) if calls else len(self.source.data)

    def _function_at(self, offset: int) -> str:
        i = bisect.bisect_right(self._functions, (offset, len(self.source.data), ""))
        return next(
            (name for begin, end, name in self._functions[max(0, i - 3) : i][::-1] if begin <= offset < end), ""
        )

    @cached_property
    def _by_name(self) -> dict[str, tuple[list[Assignment], list[int]]]:
        found: dict[str, tuple[list[Assignment], list[int]]] = {}
        for assignment in sorted(self.shell.assignments, key=lambda a: a.begin):
            entry = found.setdefault(assignment.name, ([], []))
            entry[0].append(assignment)
            entry[1].append(assignment.begin)
        return found

    @cached_property
    def _calls(self) -> dict[str, list[Command]]:
        found: dict[str, list[Command]] = {}
        for command in self.shell.commands:
            if command.name in self.shell.functions:
                found.setdefault(command.name, []).append(command)
        return found

    @cached_property
    def _functions(self) -> list[tuple[int, int, str]]:
        return sorted((*self._offsets(span), name) for name, span in self.shell.functions.items())

    @cached_property
    def _loops(self) -> list[tuple[int, int]]:
        spans = dict.fromkeys(loop.span for command in self.shell.commands for loop in command.around.loops)
        return [self._offsets(span) for span in list(spans)[:_MOST_LOOPS]]

    def _offsets(self, span: Span) -> tuple[int, int]:
        return self._offset(span.line, span.column), self._offset(span.end_line, span.end_column)

    def _offset(self, line: int, column: int) -> int:
        begin = self.source.bounds_of_line(line)[0]
        return begin + len(self.source.line(line)[: column - 1].encode("utf-8", "surrogateescape"))
