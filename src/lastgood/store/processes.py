"""Telling a process from a later one that was given its number."""


def birth_of(pid: int) -> str | None:
    """When a process of this machine began (clock ticks since the machine's start), as a text that no later
    process of that number shares; None if it has ended, or if there is no /proc to ask."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The second field is a name in parentheses that may itself hold spaces and parentheses.
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def is_alive(pid: int, birth: str) -> bool:
    """True if the process that began at `birth` lives; where that is not known (empty), if any of its number does."""
    found = birth_of(pid)
    return found is not None and birth in ("", found)
