"""What Slurm's commands print, as values; and host lists both ways. Pure.

Nothing here raises for text that it does not understand, except `expand_hosts`: an unknown value is None or
missing, because what another version of Slurm prints must not end a job.
"""

import re
from collections.abc import Iterable
from datetime import datetime

NOTHING = frozenset({"", "(null)", "none", "n/a", "unknown", "invalid"})
"""How Slurm writes that there is no value, in lower case."""

_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/:.]*)=")
_CONFIG_LINE = re.compile(r"(\S+)\s*=\s?(.*)")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d+)?\Z")
_EXIT = re.compile(r"(\d+):(\d+)\Z")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?\Z")
_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)

_TAIL = ("Command", "WorkDir", "AdminComment", "SystemComment", "Comment", "StdErr", "StdIn", "StdOut", "Power")
"""The last fields of a job. People write what they like into the first of them, also words like `Requeue=0`."""
_BEHIND = {"JobName": ("UserId",), **{name: _TAIL[i + 1 :] for i, name in enumerate(_TAIL[:-1])}}
"""Fields that hold what people write, and by which field each is followed."""

MAX_HOSTS = 1_000_000


def fields(line: str) -> dict[str, str]:
    """The fields of one record of `scontrol show job` or `show partition`, with or without `-o`.

    "(null)" is kept: `value_of` tells it from a value. Words like `a=b` in a job's name, command or comment are
    part of it.

    >>> fields("JobId=7 JobName=my job Requeue=0 UserId=a(1) Requeue=1 Command=/b.sh x=1 WorkDir=/w Comment=(null)")
    {'JobId': '7', 'JobName': 'my job Requeue=0', 'UserId': 'a(1)', 'Requeue': '1', 'Command': '/b.sh x=1', 'WorkDir': '/w', 'Comment': '(null)'}
    """
    found: dict[str, str] = {}
    name, begin = "", 0
    for key in _KEY.finditer(line):
        if key[1] in found or key[1] == name or (name in _BEHIND and key[1] not in _BEHIND[name]):
            continue
        if name:
            found[name] = line[begin : key.start()].strip()
        name, begin = key[1], key.end()
    if name:
        found[name] = line[begin:].strip()
    return found


def records(text: str) -> list[dict[str, str]]:
    """The records that `scontrol -o show ...` printed, one a line."""
    return [record for line in text.splitlines() if (record := fields(line))]


def parse_config(text: str) -> dict[str, str]:
    """What `scontrol show config` printed, by parameter.

    >>> parse_config("Configuration data as of ...\\nKillWait                = 30 sec\\nRequeueExit             = 75\\n")
    {'KillWait': '30 sec', 'RequeueExit': '75'}
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _CONFIG_LINE.match(line):
            found.setdefault(match[1], match[2].strip())
    return found


def value_of(record: dict[str, str], name: str) -> str:
    """A field, empty where Slurm says that there is no value.

    >>> value_of({"Comment": "(null)"}, "Comment"), value_of({}, "Comment"), value_of({"Comment": "x"}, "Comment")
    ('', '', 'x')
    """
    text = record.get(name, "")
    return "" if text.lower() in NOTHING else text


def parse_table(text: str, delimiter: str = "|") -> list[dict[str, str]]:
    """The rows of a table with a heading, as `sacct -P` prints it. A row of another length is left out.

    >>> parse_table("JobID|State\\n7|REQUEUED\\n7|COMPLETED\\n")
    [{'JobID': '7', 'State': 'REQUEUED'}, {'JobID': '7', 'State': 'COMPLETED'}]
    """
    lines = [line for line in text.split("\n") if line]
    if not lines:
        return []
    heading = lines[0].split(delimiter)
    rows = (line.split(delimiter) for line in lines[1:])
    return [dict(zip(heading, row, strict=True)) for row in rows if len(row) == len(heading)]


def parse_slurm_duration(text: str) -> float | None:
    """Seconds in a time limit as Slurm writes and reads it; None for "UNLIMITED", "Partition_Limit" and the like.

    A bare number is minutes, as for `sbatch --time`; see `parse_seconds` for what is in seconds.

    >>> [parse_slurm_duration(t) for t in ("90", "10:30", "1:00:00", "1-02", "1-02:03", "1-02:03:04", "30 sec", "UNLIMITED")]
    [5400.0, 630.0, 3600.0, 93600.0, 93780.0, 93784.0, 30.0, None]
    """
    stripped = text.strip()
    for unit, seconds in (("sec", 1), ("min", 60), ("hours", 3600)):
        number = stripped.removesuffix(unit).strip()
        if number != stripped and number.isascii() and number.isdigit():
            return float(int(number) * seconds)
    match = _CLOCK.match(stripped)
    if match is None or not stripped.isascii():
        return None
    days, first, second, third = (int(group) if group else 0 for group in match.groups())
    if match[1] is not None:
        return float(((days * 24 + first) * 60 + second) * 60 + third)
    if match[4] is not None:
        return float((first * 60 + second) * 60 + third)
    return float(first * 60 + second)


def parse_seconds(text: str) -> float | None:
    """Seconds in a value that is in seconds where it has no unit, such as GraceTime and KillWait.

    >>> parse_seconds("30 sec"), parse_seconds("30"), parse_seconds("00:01:00"), parse_seconds("(null)")
    (30.0, 30.0, 60.0, None)
    """
    stripped = text.strip()
    return float(stripped) if stripped.isascii() and stripped.isdigit() else parse_slurm_duration(stripped)


def parse_time(text: str) -> float | None:
    """A moment in seconds since 1970, from seconds or from Slurm's default format (local time).

    >>> parse_time("1790000000"), parse_time("Unknown")
    (1790000000.0, None)
    """
    stripped = text.strip()
    if stripped.isascii() and stripped.isdigit():
        return float(stripped)
    try:
        return datetime.strptime(stripped, "%Y-%m-%dT%H:%M:%S").timestamp()
    except (ValueError, OverflowError):
        return None


def parse_exit(text: str) -> tuple[int, int] | None:
    """(exit code, signal) from "75:0". sacct shows a code from 128 on less 128: 137 is "9:0", and so is 9.

    >>> parse_exit("75:0"), parse_exit("0:15"), parse_exit("")
    ((75, 0), (0, 15), None)
    """
    match = _EXIT.match(text.strip())
    return (int(match[1]), int(match[2])) if match and text.isascii() else None


def parse_codes(text: str) -> frozenset[int]:
    """The exit codes in a list such as RequeueExit.

    >>> sorted(parse_codes("75,100-102")), parse_codes("(null)")
    ([75, 100, 101, 102], frozenset())
    """
    found: set[int] = set()
    for word in text.split(","):
        match = _RANGE.match(word.strip())
        if match and word.isascii():
            found.update(range(int(match[1]), min(int(match[2] or match[1]), 255) + 1))
    return frozenset(code for code in found if code <= 255)


def expand_hosts(text: str) -> list[str]:
    """The names in a host list, in its order. Raises ValueError if it is none.

    >>> expand_hosts("n[1-3,09-10],login,r[0-1]c[1-2]")
    ['n1', 'n2', 'n3', 'n09', 'n10', 'login', 'r0c1', 'r0c2', 'r1c1', 'r1c2']
    """
    if text.strip().lower() in NOTHING:
        return []
    return [host for word in _words(text.strip()) for host in _expand(word)]


def compress_hosts(hosts: Iterable[str]) -> str:
    """A host list that expands to these names, in this order where numbers rise and names with a number go together.

    >>> compress_hosts(["n1", "n2", "n3", "n09", "n10", "login"])
    'n[1-3,09-10],login'
    """
    groups: dict[str, list[str]] = {}
    for host in hosts:
        match = _NUMBERED.match(host)
        prefix, number = (match[1], match[2]) if match and host.isascii() else (host, "")
        groups.setdefault(prefix, []).append(number)
    return ",".join(_compress(prefix, numbers) for prefix, numbers in groups.items())


def _words(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    words, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if depth not in (0, 1):
            raise ValueError(f"{text!r} is not a host list")
        if c == "," and depth == 0:
            words.append("")
        else:
            words[-1] += c
    if depth or not all(words):
        raise ValueError(f"{text!r} is not a host list")
    return words


def _expand(word: str) -> list[str]:
    head, bracket, rest = word.partition("[")
    if not bracket:
        return [word]
    inside, _, tail = rest.partition("]")
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.match(part)
        if match is None or not part.isascii():
            raise ValueError(f"{word!r} is not a host list: {part!r} is no number and no range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MAX_HOSTS:
            raise ValueError(f"{word!r} names more than {MAX_HOSTS} hosts")
        numbers += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    tails = _expand(tail)
    if len(numbers) * len(tails) > MAX_HOSTS:
        raise ValueError(f"{word!r} names more than {MAX_HOSTS} hosts")
    return [head + number + end for number in numbers for end in tails]


def _compress(prefix: str, numbers: list[str]) -> str:
    """One word for names that differ in their number, "" for a name without one."""
    words = [prefix for number in numbers if not number]
    with_number = [number for number in numbers if number]
    if len(with_number) == 1:
        words.append(prefix + with_number[0])
    elif with_number:
        words.append(f"{prefix}[{','.join(_ranges(with_number))}]")
    return ",".join(words)


def _ranges(numbers: list[str]) -> list[str]:
    runs: list[list[str]] = []
    for number in numbers:
        # Written out from its first number, a range gives its numbers that one's width.
        if runs and number == f"{int(runs[-1][-1]) + 1:0{len(runs[-1][0])}d}":
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
