"""The scheduler's own settings: slurm.conf, or what `scontrol show config` and `scontrol show partition` print. Pure."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from lastgood.audit.source import Source, Span
from lastgood.schedulers.slurm_text import NOTHING, parse_codes, parse_seconds

DEFAULTS = {
    "jobrequeue": "1",
    "jobfileappend": "0",
    "killonbadexit": "0",
    "killwait": "30",
    "preemptmode": "OFF",
    "maxbatchrequeue": "5",
    "requeueexit": "",
    "requeueexithold": "",
    "slurmdtimeout": "300",
    "returntoservice": "0",
    "minjobage": "300",
    "gracetime": "0",
}
"""What slurm.conf(5) says of a setting that is not there, by its name in lower case."""

_PAIR = re.compile(r"([A-Za-z][\w]*)\s*=\s*(\"[^\"]*\"|.*?)(?=\s+[A-Za-z][\w]*=|\s*$)")
_ALONE = re.compile(r"\s*([A-Za-z][\w]*)\s*=\s?(.*?)\s*\Z")


class Setting(msgspec.Struct, frozen=True):
    name: str
    """As it is written."""
    value: str
    path: str
    span: Span
    """The name with the value."""


class Policy:
    """What is known of a cluster's rules, from one or several files.

    `get` gives None for what nothing tells, which is not the same as a default: a dump that stops early does not
    say what it leaves out.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self.settings: dict[str, Setting] = {}
        self.partitions: dict[str, dict[str, Setting]] = {}
        self.is_complete = False
        """A setting that is not there has its default."""
        for source in sources:
            self._read(source)

    @property
    def path(self) -> str:
        return self.sources[0].path

    @property
    def source(self) -> Source:
        return self.sources[0]

    def setting(self, name: str) -> Setting | None:
        """A setting that is written down somewhere."""
        return self.settings.get(name.lower())

    def get(self, name: str) -> str | None:
        """A setting's value, "" where it is set to nothing; its default where it is not set; None if not known."""
        found = self.setting(name)
        if found is not None:
            return "" if found.value.lower() in NOTHING else found.value
        return DEFAULTS.get(name.lower()) if self.is_complete else None

    def partition(self, partition: str, name: str) -> str | None:
        """A partition's own setting, such as "GraceTime" or "MaxTime"; None where it is not known."""
        found = self.partitions.get(partition, {}).get(name.lower())
        return None if found is None else "" if found.value.lower() in NOTHING else found.value

    @property
    def default_partition(self) -> str:
        """Empty if none is marked as such."""
        marked = [
            name for name, own in self.partitions.items() if "default" in own and own["default"].value.upper() == "YES"
        ]
        return marked[0] if marked else ""

    @property
    def requeue_codes(self) -> frozenset[int] | None:
        """Exit codes that Slurm requeues after (RequeueExit)."""
        text = self.get("RequeueExit")
        return None if text is None else parse_codes(text)

    @property
    def kill_wait_s(self) -> float | None:
        text = self.get("KillWait")
        return None if text is None else parse_seconds(text)

    def is_true(self, name: str) -> bool | None:
        text = self.get(name)
        return None if text is None else text.strip().lower() in ("1", "yes", "true")

    def _read(self, source: Source) -> None:
        is_dump = "Configuration data as of" in source.text(0, 4096)
        is_conf = not is_dump and "PartitionName=" not in source.text(0, 200).lstrip()[:14]
        current: dict[str, Setting] | None = None
        for number, text in _logical_lines(source):
            if is_dump:
                match = _ALONE.match(text)
                if match:
                    self._keep(self.settings, match[1], match[2], source, number)
                continue
            pairs = _PAIR.findall(text)
            if not pairs:
                continue
            first = pairs[0][0].lower()
            if first == "partitionname":
                current = self.partitions.setdefault(pairs[0][1], {})
            elif is_conf and text[:1].strip():
                current = None
            if first in ("nodename", "frontendname", "nodeset", "downnodes"):
                continue
            for name, value in pairs:
                self._keep(self.settings if current is None else current, name, value.strip('"'), source, number)
        self.is_complete = (
            self.is_complete
            or (not is_dump and is_conf)
            or (is_dump and "slurmctld" in source.text(0, len(source.data)).lower().rsplit("\n", 4)[-1])
        )

    def _keep(self, kept: dict[str, Setting], name: str, value: str, source: Source, line: int) -> None:
        # A key that is repeated: the last one wins.
        kept[name.lower()] = Setting(name, value, source.path, source.span_of_line(line))


def _logical_lines(source: Source) -> Iterable[tuple[int, str]]:
    """Lines without comments, those that end with a backslash joined to the next; with the number of the first."""
    held, begun = "", 0
    for number in range(1, source.line_count + 1):
        text = source.line(number)
        text = text.partition("#")[0].rstrip()
        if text.endswith("\\"):
            held, begun = held + text[:-1], begun or number
            continue
        yield begun or number, held + text
        held, begun = "", 0
