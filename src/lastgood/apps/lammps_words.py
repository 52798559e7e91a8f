"""The lines of a LAMMPS input, as far as they can be read without running it: commands, and variables that are constant.

A variable counts as constant where its value is a word or arithmetic of numbers. Everything else (the volume, a step, a
random number) has another value in a resumed run than it had at the beginning.
"""

import math
import re
from collections.abc import Callable, Mapping

import msgspec

_EXPANSION = re.compile(r"\$(?:\{(\w+)\}|\(([^()]*(?:\([^()]*\)[^()]*)*)\)|(\w))")
_WORD = re.compile(r"'([^']*)'|\"([^\"]*)\"|(\S+)")
_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|v_\w+|PI|[a-z]+(?=\()|[-+*/^()])")
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "ln": math.log,
    "log": math.log10,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": lambda value: math.copysign(math.floor(abs(value) + 0.5), value),
}


class Line(msgspec.Struct, frozen=True):
    """One command, joined where `&` broke it."""

    number: int
    """Of its first line in the file."""
    text: str
    """As it was written, without a comment."""
    words: tuple[str, ...]


class NotConstantError(ValueError):
    """What stands there is not known before the run; the text names it."""


class UnreadableError(ValueError):
    """The text cannot be split into commands; the text says where."""


def split_lines(text: str) -> list[Line]:
    """The commands of an input; empty lines and comments are left out. Raises UnreadableError.

    >>> [line.words for line in split_lines("fix 1 all &  # x\\n  nve\\nprint 'a # b'")]
    [('fix', '1', 'all', 'nve'), ('print', 'a # b')]
    """
    found: list[Line] = []
    begun, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        if '"""' in raw:
            raise UnreadableError(f'line {number}: text in triple quotes (""")')
        line = _without_comment(raw).rstrip()
        first = first if begun else number
        if line.endswith("&"):
            begun += line[:-1] + " "
            continue
        whole, begun = (begun + line).strip(), ""
        if whole:
            found.append(Line(first, whole, tuple(_words(whole))))
    if begun.strip():
        found.append(Line(first, begun.strip(), tuple(_words(begun))))
    return found


def expand(text: str, variables: Mapping[str, str | None]) -> str:
    """`text` with the values of its variables. Raises NotConstantError.

    >>> expand("rs.${name}.$(2*v_n)", {"name": "a", "n": "3"})
    'rs.a.6'
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name is None:
            formula, _, form = match[2].partition(":")
            number = evaluate(formula, variables)
            return form % number if form else f"{number:.15g}"
        if (known := variables.get(name)) is None:
            raise NotConstantError(f"${{{name}}}")
        return known

    return _EXPANSION.sub(value, text)


def evaluate(formula: str, variables: Mapping[str, str | None]) -> float:
    """The value of arithmetic with numbers. Raises NotConstantError.

    >>> evaluate("floor(7/2)^2 - -1", {})
    10.0
    """
    tokens, at = [], 0
    formula = formula.strip().strip("\"'")
    while at < len(formula.rstrip()):
        if (match := _TOKEN.match(formula, at)) is None:
            raise NotConstantError(formula)
        tokens.append(match[1])
        at = match.end()
    try:
        return _Formula(formula, tokens, variables).value()
    except (ArithmeticError, ValueError, TypeError, IndexError) as error:
        raise NotConstantError(formula) from error


def unquoted(text: str) -> str:
    """What LAMMPS replaces variables in before it runs a command."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", " ", text)


def has_expansion(text: str) -> bool:
    return _EXPANSION.search(text) is not None


def _without_comment(line: str) -> str:
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return line[:at]
    return line


def _words(text: str) -> list[str]:
    return [next(part for part in match.groups() if part is not None) for match in _WORD.finditer(text)]


class _Formula:
    """Sums, products and powers, by descent."""

    def __init__(self, text: str, tokens: list[str], variables: Mapping[str, str | None]) -> None:
        self._text = text
        self._tokens = tokens
        self._variables = variables

    def value(self) -> float:
        result = self._sum()
        if self._tokens:
            raise NotConstantError(self._text)
        return result

    def _next(self, *wanted: str) -> str:
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in wanted else ""

    def _sum(self) -> float:
        result = self._product()
        while sign := self._next("+", "-"):
            result += self._product() if sign == "+" else -self._product()
        return result

    def _product(self) -> float:
        result = self._power()
        while sign := self._next("*", "/"):
            result = result * self._power() if sign == "*" else result / self._power()
        return result

    def _power(self) -> float:
        base = self._unit()
        return float(base ** self._power()) if self._next("^") else base

    def _unit(self) -> float:
        token = self._tokens.pop(0)
        if token == "-":
            return -self._unit()
        if token == "(":
            return self._closed()
        if token in _FUNCTIONS:
            self._tokens.pop(0)
            return float(_FUNCTIONS[token](self._closed()))
        if token == "PI":
            return math.pi
        if token.startswith("v_"):
            if (known := self._variables.get(token[2:])) is None:
                raise NotConstantError(self._text)
            return float(known)
        return float(token)

    def _closed(self) -> float:
        result = self._sum()
        if not self._next(")"):
            raise NotConstantError(self._text)
        return result
