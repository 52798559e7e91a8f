"""The `#SBATCH` lines of a script, read as sbatch reads them. Pure.

sbatch looks at lines that begin with `#SBATCH` exactly, until the first line that is neither blank nor a comment. Of
an option that is given twice the last counts; options on the command line, which we cannot see, win over all.
Source: sbatch(1).
"""

import re

import msgspec

from lastgood.audit.source import Source, Span

MAGIC = "#SBATCH"

_WITH_LETTER = {
    "account": "A",
    "array": "a",
    "begin": "b",
    "chdir": "D",
    "clusters": "M",
    "constraint": "C",
    "core-spec": "S",
    "cpus-per-task": "c",
    "dependency": "d",
    "distribution": "m",
    "error": "e",
    "exclude": "x",
    "extra-node-info": "B",
    "gpus": "G",
    "input": "i",
    "job-name": "J",
    "licenses": "L",
    "nodefile": "F",
    "nodelist": "w",
    "nodes": "N",
    "ntasks": "n",
    "output": "o",
    "partition": "p",
    "qos": "q",
    "time": "t",
}
_WITHOUT_LETTER = """
acctg-freq batch bb bbf cluster-constraint comment container container-id cores-per-socket cpu-freq cpus-per-gpu
deadline delay-boot export export-file extra gid gpu-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task gres
gres-flags hint kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network
ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step open-mode power prefer priority profile
reservation resv-ports segment signal sockets-per-node switches thread-spec threads-per-core time-min tmp tres-bind
tres-per-task uid wait-all-nodes wckey wrap
""".split()
_FLAGS = {
    "contiguous": "",
    "help": "h",
    "hold": "H",
    "ignore-pbs": "",
    "no-requeue": "",
    "overcommit": "O",
    "parsable": "",
    "quiet": "Q",
    "reboot": "",
    "requeue": "",
    "spread-job": "",
    "stepmgr": "",
    "test-only": "",
    "usage": "",
    "use-min-nodes": "",
    "verbose": "v",
    "version": "V",
    "wait": "W",
}
_MAY_HAVE_VALUE = {
    "exclusive": "",
    "get-user-env": "",
    "nice": "",
    "no-kill": "k",
    "oversubscribe": "s",
    "propagate": "",
    "share": "",
}
_TAKES_VALUE = {*_WITH_LETTER, *_WITHOUT_LETTER}
_NAMES = sorted({*_TAKES_VALUE, *_FLAGS, *_MAY_HAVE_VALUE})
_LETTERS = {
    letter: name for table in (_WITH_LETTER, _FLAGS, _MAY_HAVE_VALUE) for name, letter in table.items() if letter
}
_WORD = re.compile(r"""(?:"[^"]*"?|'[^']*'?|\\.|[^\s"'\\])+""")
_QUOTING = re.compile(r"""["']|\\(?=.)""")


class Directive(msgspec.Struct, frozen=True):
    """One option of a `#SBATCH` line."""

    name: str
    """The long name, such as "time"; as it is written where sbatch has none such."""
    value: str
    """Empty for a flag, or where the value is missing."""
    span: Span
    """The option with its value."""
    begin: int
    end: int
    is_known: bool = True


class Header(msgspec.Struct, frozen=True):
    """What sbatch takes from a script, and what looks like it and is not taken."""

    directives: tuple[Directive, ...]
    too_late: tuple[Span, ...]
    """Lines that begin with `#SBATCH`, behind the first command: sbatch does not see them."""
    end: int
    """Offset where a further directive can be added: behind the last one, or behind the first line."""

    def get(self, name: str) -> Directive | None:
        """The option that counts; None if it is not given."""
        return next((found for found in reversed(self.directives) if found.name == name), None)

    def value(self, name: str) -> str:
        found = self.get(name)
        return found.value if found is not None else ""


def read_header(source: Source) -> Header:
    """
    >>> header = read_header(Source("x", b"#!/bin/bash\\n#SBATCH -t 1:00 --requeue\\n#SBATCH --time=2:00 # or so\\nls\\n#SBATCH -n 2\\n"))
    >>> header.value("time"), header.get("requeue") is not None, [span.line for span in header.too_late]
    ('2:00', True, [5])
    """
    directives: list[Directive] = []
    too_late: list[Span] = []
    end = -1
    is_over = False
    for number in range(1, source.line_count + 1):
        begin, line_end = source.bounds_of_line(number)
        raw = source.data[begin:line_end]
        if raw.startswith(MAGIC.encode()):
            if is_over:
                too_late.append(source.span_of_line(number))
            else:
                directives += _options(source, begin + len(MAGIC), line_end)
                end = _next_line(source, line_end)
        elif not is_over:
            bare = raw.strip()
            if number == 1 and bare.startswith(b"#!"):
                end = _next_line(source, line_end)
            is_over = bool(bare) and not bare.startswith(b"#")
    return Header(tuple(directives), tuple(too_late), max(end, 0))


def _next_line(source: Source, end: int) -> int:
    found = source.data.find(b"\n", end)
    return len(source.data) if found < 0 else found + 1


def _options(source: Source, begin: int, end: int) -> list[Directive]:
    words = []
    text = source.text(begin, end)
    for match in _WORD.finditer(text):
        if match[0].startswith("#"):
            break
        at = begin + len(text[: match.start()].encode("utf-8", "surrogateescape"))
        words.append((_unquoted(match[0]), at, at + len(match[0].encode("utf-8", "surrogateescape"))))
    found = []
    i = 0
    while i < len(words):
        word, at, stop = words[i]
        i += 1
        name, value, wants_value = _parse(word)
        if wants_value and i < len(words):
            value, _, stop = words[i]
            i += 1
        found.append(Directive(name, value, source.span(at, stop), at, stop, name in _NAMES))
    return found


def _parse(word: str) -> tuple[str, str, bool]:
    """(long name, value, whether the value is the next word)."""
    if word.startswith("--"):
        written, equals, value = word[2:].partition("=")
        fitting = [name for name in _NAMES if name.startswith(written)] if written else []
        name = written if written in fitting or len(fitting) != 1 else fitting[0]
        return name, value, not equals and name in _TAKES_VALUE
    if word.startswith("-") and len(word) > 1:
        name = _LETTERS.get(word[1], word[1])
        return name, word[2:].removeprefix("="), len(word) == 2 and name in _TAKES_VALUE
    return word, "", False


def _unquoted(word: str) -> str:
    return _QUOTING.sub("", word)
