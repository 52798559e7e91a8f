"""What a program has imported and what it has changed around it, as it tells the launcher of its own. Pure.

A standby imports the same modules ahead of the next start. Every text is bytes of the file system or of the
environment, decoded as Latin-1, which loses nothing.
"""

import msgspec

from lastgood.core.heartbeat import heartbeat_file


class Imported(msgspec.Struct, frozen=True):
    """Written once by a rank, after its first step."""

    pid: int
    main_file: str
    """`__main__.__file__`; empty if it has none."""
    main_module: str
    """For `python -m`: the module that runs as `__main__`."""
    path: list[str]
    """`sys.path`."""
    standard_library: str
    """Its directory."""
    changed: dict[str, str | None]
    """Variables of the environment that have another value than at the start; None: it is unset."""
    modules: list[tuple[str, str]]
    """Name and file of each module in the order in which their imports ended; the file is empty for modules that
    are part of the interpreter."""


def imports_file(rank: int) -> str:
    """Its name beside the rank's heartbeat.

    >>> imports_file(0)
    'rank-00000.imports'
    """
    return f"{heartbeat_file(rank)}.imports"


def encode(imported: Imported) -> bytes:
    return msgspec.json.encode(imported)


def decode(data: bytes) -> Imported | None:
    """None for what is no such record, or not all of it yet.

    >>> decode(encode(Imported(7, "/x/train.py", "", [], "/lib", {}, [("math", "")]))).modules
    [('math', '')]
    >>> decode(b'{"pid": 7') is None
    True
    """
    try:
        return msgspec.json.decode(data, type=Imported)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
