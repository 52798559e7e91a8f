"""Commands and paths as text that is safe to print and can be pasted into a shell. Pure."""

import shlex
from collections.abc import Iterable

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def shown(argument: str) -> str:
    """One argument as a shell would need it typed.

    What does not print (newlines, escape sequences, bytes that are no text) is written as bash's $'...'.

    >>> shown("a b"), shown("plain"), shown("two\\nlines")
    ("'a b'", 'plain', "$'two\\\\nlines'")
    >>> print(shown("\\udcff"), shown("\\ud800"))
    $'\\xff' $'\\xed\\xa0\\x80'
    """
    if argument.isprintable():
        return shlex.quote(argument)
    return "$'" + "".join(_escaped(c) for c in argument) + "'"


def shown_command(arguments: Iterable[str]) -> str:
    return " ".join(shown(argument) for argument in arguments)


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable():
        return character
    # Surrogates stand for bytes of a name that is not UTF-8; they are shown as those bytes. Others are no bytes of anything.
    is_byte = "\udc80" <= character <= "\udcff"
    return "".join(
        f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    )
