"""How a cluster's settings are written: slurm.conf, and what scontrol and sacctmgr print. Pure."""

import re
from collections.abc import Callable, Iterator

import msgspec

from lastgood.audit.finding import Problem
from lastgood.audit.source import Source, Span

FindInclude = Callable[[str, str], Source | None]
"""The file that `Include` names in the file `near`: (near, path) -> its text, None if there is none."""

_NAME = rb"[A-Za-z][\w.]*(?:\[\d+\])?"
_CONF_PAIR = re.compile(rb"(%s)[ \t]*[-+*/]?=[ \t]*(\"[^\"\n]*\"|(?:\{\{.*?\}\}|[^\s\"])(?:\{\{.*?\}\}|\S)*)?" % _NAME)
_DUMP_LINE = re.compile(rb"(%s)[ \t]*=[ \t]?(.*?)[ \t\r]*\Z" % _NAME)
_RECORD_PAIR = re.compile(rb"(?:^|(?<=\s))(%s)=(\S*)" % _NAME)
_INCLUDE = re.compile(rb"\s*include[ \t]+(\S+)", re.IGNORECASE)
_HEADING = re.compile(rb"[A-Z][\w ]*:\s*\Z")
_DUMP_BEGINS = b"Configuration data as of"
_PARTITION_RECORD = re.compile(
    rb"^PartitionName=\S+[ \t\r]*\n[ \t]+\w+=|^PartitionName=[^\n]*[ \t]TotalNodes=\d", re.MULTILINE
)
_QOS_HEADING = re.compile(rb"(?:\w+\|)*Name\|[\w|%]*\s*\Z")
_PLACEHOLDER = re.compile(rb"\{\{|<%|\$\{|\$[A-Za-z]|@\w+@|<[A-Za-z][\w-]*>|\{[A-Za-z_]\w*\}")
_TEMPLATE_BLOCK = re.compile(rb"\{%-?\s*(\w+)|<%-?\s*(if|unless|for|end)\b|^\s*\{\{[#/-]")
_NO_SETTINGS = (b"nodename", b"frontendname", b"nodeset", b"downnodes", b"switchname", b"blockname")
_OPENS = (b"if", b"for", b"unless", b"block", b"macro", b"raw")
_DEPTH = 10
_MANY = 10
LAST_OF_A_DUMP = "x11parameters"
"""scontrol prints the settings by name; behind this one there are only those of plugins."""


class Setting(msgspec.Struct, frozen=True):
    name: str
    """As it is written."""
    value: str
    path: str
    span: Span
    """The name with the value."""


class Written(msgspec.Struct):
    """All that is written in some files, the last of a repeated setting. Names are in lower case."""

    settings: dict[str, Setting] = {}
    partitions: dict[str, dict[str, Setting]] = {}
    qos: dict[str, dict[str, Setting]] = {}
    unknown: set[str] = set()
    """Settings whose values only a template's user knows."""
    of_conf: set[str] = set()
    """Partitions of a slurm.conf, where what is not written has its default."""
    problems: list[Problem] = []
    has_conf: bool = False
    has_whole_dump: bool = False
    has_gaps: bool = False
    """An included file is missing, or a template decides what is there."""


def read_into(written: Written, source: Source, find_include: FindInclude) -> None:
    _Reader(written, source, find_include, ()).read()


class _Line(msgspec.Struct):
    """A line with those that continue it, without comments."""

    text: bytes
    pieces: list[tuple[int, int]]
    """Where in the text a line of the file begins, and where that is in the file."""

    def offset(self, at: int) -> int:
        begin, offset = [piece for piece in self.pieces if piece[0] <= at][-1]
        return offset + at - begin


class _Reader:
    def __init__(self, written: Written, source: Source, find_include: FindInclude, above: tuple[str, ...]) -> None:
        self.written = written
        self.source = source
        self.find_include = find_include
        self.above = above
        self.line = self._read_conf_line
        self.partition: dict[str, Setting] = {}
        self.defaults: dict[str, Setting] = {}
        self.qos_names: list[str] = []
        self.depth = 0
        self.strange = 0
        self.has_main = False

    def read(self) -> None:
        source, data = self.source, self.source.data
        if _PARTITION_RECORD.search(data):
            self.line = self._read_record_line
        for line in _logical_lines(source):
            stripped = line.text.strip()
            if stripped.startswith(_DUMP_BEGINS):
                self.line = self._read_dump_line
            elif _QOS_HEADING.match(stripped):
                self.qos_names = [name.decode().lower() for name in stripped.split(b"|")]
                self.line = self._read_qos_line
            elif self.line != self._read_conf_line and stripped.startswith(b"PartitionName="):
                self.line = self._read_record_line
                self.line(line)
            elif stripped:
                self.line(line)
        self.written.has_conf |= self.has_main
        if self.strange > _MANY:
            self._problem(f"{self.strange - _MANY} more lines are no settings", None)

    def _read_conf_line(self, line: _Line) -> None:
        text = line.text
        if block := _TEMPLATE_BLOCK.search(text):
            word = block[1] or block[2] or b""
            self.depth = max(0, self.depth + (word in _OPENS) - word.startswith(b"end"))
            self.written.has_gaps = True
            return
        if include := _INCLUDE.match(text):
            self._include(include[1].decode("utf-8", "replace"), self._span(line))
            return
        pairs = [pair for pair in _CONF_PAIR.finditer(text) if not text[: pair.start()][-1:].strip()]
        rest = _CONF_PAIR.sub(b"", text).strip()
        if rest and _PLACEHOLDER.search(rest):
            # Whole lines are filled in.
            self.written.has_gaps = True
        elif rest and not self.depth:
            self.strange += 1
            if self.strange <= _MANY:
                words = (rest if len(rest) <= 40 else rest[:40] + b"...").decode("utf-8", "replace")
                self._problem(f"this is no setting, so it was not looked at: {words}", self._span(line))
        if not pairs:
            return
        first, value = pairs[0][1].lower(), (pairs[0][2] or b"").strip(b'"').decode("utf-8", "replace")
        if first in _NO_SETTINGS:
            return
        if first != b"partitionname":
            kept = self.written.settings
            self.has_main = True
        elif value.upper() == "DEFAULT":
            kept = self.defaults
        elif _PLACEHOLDER.search(value.encode()):
            return
        else:
            kept = self.written.partitions[value] = dict(self.defaults)
            self.written.of_conf.add(value)
        for pair in pairs:
            self._keep(kept, pair[1], pair[2] or b"", line, pair.start(), pair.end())

    def _read_dump_line(self, line: _Line) -> None:
        text = line.text
        if _HEADING.match(text) or text.startswith(b"Slurmctld("):
            # Settings of plugins follow, or whether slurmctld is up.
            self.written.has_whole_dump = True
            self.line = self._skip_line
        elif pair := _DUMP_LINE.match(text):
            self._keep(self.written.settings, pair[1], pair[2], line, 0, pair.end(2))
            self.written.has_whole_dump |= pair[1].decode().lower() == LAST_OF_A_DUMP

    def _skip_line(self, line: _Line) -> None:
        pass

    def _read_record_line(self, line: _Line) -> None:
        for pair in _RECORD_PAIR.finditer(line.text):
            if pair[1] == b"PartitionName":
                self.partition = self.written.partitions.setdefault(pair[2].decode("utf-8", "replace"), {})
            self._keep(self.partition, pair[1], pair[2], line, pair.start(), pair.end())

    def _read_qos_line(self, line: _Line) -> None:
        text = line.text
        cells = text.rstrip(b"\r").split(b"|")
        if len(cells) != len(self.qos_names):
            return
        name = cells[self.qos_names.index("name")].decode("utf-8", "replace")
        row = self.written.qos.setdefault(name, {})
        for key, cell in zip(self.qos_names, cells, strict=True):
            self._keep(row, key.encode(), cell, line, 0, len(text.rstrip()))

    def _include(self, path: str, span: Span) -> None:
        cluster = self.written.settings.get("clustername")
        path = path.replace("%c", cluster.value if cluster else "%c")
        found = self.find_include(self.source.path, path) if len(self.above) < _DEPTH else None
        if found is None or found.path in (*self.above, self.source.path):
            self._problem(f"the included file {path} is not there: what it sets is not known", span)
            self.written.has_gaps = True
            return
        inner = _Reader(self.written, found, self.find_include, (*self.above, self.source.path))
        inner.defaults = self.defaults
        inner.read()

    def _keep(self, kept: dict[str, Setting], name: bytes, value: bytes, line: _Line, begin: int, end: int) -> None:
        key = name.decode().lower()
        if _PLACEHOLDER.search(value) or self.depth:
            kept.pop(key, None)
            self.written.unknown.add(key)
            return
        text = value.strip(b'"').decode("utf-8", "surrogateescape")
        span = self.source.span(line.offset(begin), max(line.offset(begin), line.offset(end - 1) + 1))
        # A setting that is repeated: the last one wins.
        kept[key] = Setting(name.decode(), text, self.source.path, span)
        if kept is self.written.settings:
            self.written.unknown.discard(key)

    def _span(self, line: _Line) -> Span:
        blanks = len(line.text) - len(line.text.lstrip())
        begin = line.offset(blanks)
        return self.source.span(begin, max(begin, line.offset(max(len(line.text.rstrip()) - 1, 0)) + 1))

    def _problem(self, message: str, span: Span | None) -> None:
        self.written.problems.append(Problem(path=self.source.path, message=message, span=span, is_partial=True))


def _logical_lines(source: Source) -> Iterator[_Line]:
    held: _Line | None = None
    for number in range(1, source.line_count + 1):
        begin, end = source.bounds_of_line(number)
        text = _without_comment(source.data[begin:end])
        line = _Line(text, [(0, begin)])
        if held is not None:
            line = _Line(held.text + text, [*held.pieces, (len(held.text), begin)])
            held = None
        stripped = line.text.rstrip()
        slashes = len(stripped) - len(stripped.rstrip(b"\\"))
        if slashes % 2:
            held = _Line(stripped[:-1], line.pieces)
        else:
            yield line
    if held is not None:
        yield held


def _without_comment(text: bytes) -> bytes:
    at = text.find(b"#")
    while at > 0 and (len(text[:at]) - len(text[:at].rstrip(b"\\"))) % 2:
        at = text.find(b"#", at + 1)
    return text if at < 0 else text[:at]
