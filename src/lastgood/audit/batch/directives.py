"""The `#SBATCH` lines of a script, read as sbatch reads them. Pure.

sbatch looks at lines that begin with `#SBATCH` exactly, until the first line that is neither blank nor a comment. Of
an option that is given twice the last counts; options on the command line, which we cannot see, win over all.

What the manual page leaves open was tried with sbatch 22.05 (`sbatch -v` prints what it took): `#` outside quotes begins
a comment, also in the middle of a word (`--comment=a#b` is "a"); a backslash takes the next character as it is, also in
quotes; a quote that is not closed, a word that is no option and an option that sbatch does not have refuse the whole
script; `--requeue` and `--no-requeue` are one setting; an option that may have a value has it only behind `=`; letters
can stand together (`-HQn3`); `-J=x` is "=x"; long names can be shortened as long as they are clear; behind a line
`#SBATCH hetjob` (or `packjob`) the options are those of another component.
Source: sbatch(1).
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from lastgood.audit.source import Source, Span

MAGIC = "#SBATCH"
_MAGIC = MAGIC.encode()

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
NAMES = frozenset({*_TAKES_VALUE, *_FLAGS, *_MAY_HAVE_VALUE})
_LETTERS = {
    letter: name for table in (_WITH_LETTER, _FLAGS, _MAY_HAVE_VALUE) for name, letter in table.items() if letter
}
_ALIASES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}
_ONE_SETTING = (frozenset({"requeue", "no-requeue"}), frozenset({"exclusive", "oversubscribe", "share"}))
"""Options that set the same thing: the last of them counts."""
_SEPARATORS = ("hetjob", "packjob")


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
    """Those of the first component of a heterogeneous job, on which the script runs; all, where there is one only."""
    too_late: tuple[Span, ...]
    """Lines that begin with `#SBATCH`, behind the first command: sbatch does not see them."""
    end: int
    """Offset where a further directive can be added: behind the last one, or behind the first line."""
    of_other_components: tuple[Directive, ...] = ()

    def get(self, name: str) -> Directive | None:
        """The option that counts; None if it is not given, or another one that sets the same thing comes later."""
        names = next((group for group in _ONE_SETTING if name in group), {name})
        found = next((found for found in reversed(self.directives) if found.name in names and found.is_known), None)
        return found if found is not None and found.name == name else None

    def value(self, name: str) -> str:
        found = self.get(name)
        return found.value if found is not None else ""


class _Word(msgspec.Struct, frozen=True):
    text: str
    begin: int
    end: int


def read_header(source: Source) -> Header:
    """
    >>> header = read_header(Source("x", b"#!/bin/bash\\n#SBATCH -t 1:00 --requeue\\n#SBATCH --time=2:00 # or so\\nls\\n#SBATCH -n 2\\n"))
    >>> header.value("time"), header.get("requeue") is not None, [span.line for span in header.too_late]
    ('2:00', True, [5])
    """
    components: list[list[Directive]] = [[]]
    too_late: list[Span] = []
    end = -1
    for number in range(1, source.line_count + 1):
        begin, line_end = source.bounds_of_line(number)
        raw = source.data[begin:line_end]
        if raw.startswith(_MAGIC):
            words = list(_words(source, begin + len(MAGIC), line_end))
            if words and words[0].text in _SEPARATORS:
                components.append([])
            else:
                components[-1] += _options(source, words)
            end = end if len(components) > 1 else _next_line(source, line_end)
            continue
        bare = raw.strip()
        if number == 1 and bare.startswith(b"#!"):
            end = _next_line(source, line_end)
        if bare and not bare.startswith(b"#"):
            too_late += _lines_behind(source, line_end)
            break
    others = tuple(directive for component in components[1:] for directive in component)
    return Header(tuple(components[0]), tuple(too_late), max(end, 0), others)


def _lines_behind(source: Source, begin: int) -> Iterator[Span]:
    at = source.data.find(b"\n" + _MAGIC, begin)
    while at >= 0:
        yield source.span_of_line(source.span(at + 1, at + 1).line)
        at = source.data.find(b"\n" + _MAGIC, at + 1)


def _next_line(source: Source, end: int) -> int:
    found = source.data.find(b"\n", end)
    return len(source.data) if found < 0 else found + 1


def _words(source: Source, begin: int, end: int) -> Iterator[_Word]:
    """The words of a line up to a comment, without their quotes."""
    data = source.data
    text, word_begin, quote = bytearray(), -1, 0
    at = begin
    while at < end:
        c = data[at]
        if not quote and (c in b" \t\v\f\r#"):
            if word_begin >= 0:
                yield _Word(text.decode("utf-8", "surrogateescape"), word_begin, at)
                text, word_begin = bytearray(), -1
            if c == ord("#"):
                return
            at += 1
            continue
        word_begin = at if word_begin < 0 else word_begin
        if c == ord("\\") and at + 1 < end:
            at += 1
            text.append(data[at])
        elif c == quote:
            quote = 0
        elif not quote and c in b"\"'":
            quote = c
        else:
            text.append(c)
        at += 1
    if word_begin >= 0:
        yield _Word(text.decode("utf-8", "surrogateescape"), word_begin, end)


def _options(source: Source, words: list[_Word]) -> Iterator[Directive]:
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        end = word.end
        for name, value, wants_value in _parse(word.text):
            if wants_value and i < len(words):
                value, end = words[i].text, words[i].end
                i += 1
            span = source.span(word.begin, end)
            # The word "requeue" in a sentence is no option.
            is_known = name in NAMES and word.text.startswith("-")
            yield Directive(name, value, span, word.begin, end, is_known)


def takes_next_word(word: str) -> bool:
    """True if an option of sbatch as it is written has its value in the word behind it.

    >>> [takes_next_word(word) for word in ("--partition", "--partition=a", "--parsable", "-d", "-dx")]
    [True, False, False, True, False]
    """
    return any(wants for _, _, wants in _parse(word))


def _parse(word: str) -> Iterator[tuple[str, str, bool]]:
    """(long name, value, whether the value is the next word) of each option in a word."""
    if word.startswith("--") and len(word) > 2:
        written, equals, value = word[2:].partition("=")
        name = _long_name(written)
        yield name, value, not equals and name in _TAKES_VALUE
    elif word.startswith("-") and len(word) > 1:
        for i, letter in enumerate(word[1:], 2):
            name = _LETTERS.get(letter, letter)
            if name in _TAKES_VALUE or name in _MAY_HAVE_VALUE:
                yield name, word[i:], name in _TAKES_VALUE and i == len(word)
                return
            yield name, "", False
    else:
        yield word, "", False


@lru_cache(maxsize=1024)
def _long_name(written: str) -> str:
    if written in _ALIASES:
        return _ALIASES[written]
    fitting = {_ALIASES.get(name, name) for name in (*NAMES, *_ALIASES) if name.startswith(written)}
    return written if written in NAMES or not written or len(fitting) != 1 else fitting.pop()
