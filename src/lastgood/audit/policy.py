"""The scheduler's own settings: slurm.conf, or what scontrol and sacctmgr print of them. Pure.

From a live cluster: the outputs of `scontrol show config`, `scontrol show partition` and, where there is accounting,
`sacctmgr -P show qos`, each as a Source.
"""

from collections.abc import Sequence

import msgspec

from lastgood.audit.finding import Problem
from lastgood.audit.policy_text import FindInclude, Setting, Written, read_into
from lastgood.audit.source import WHOLE_FILE, Source, Span
from lastgood.schedulers.slurm_text import NOTHING, expand_hosts, parse_codes, parse_seconds, parse_slurm_duration

__all__ = ["DEFAULTS", "PARTITION_DEFAULTS", "Policy", "Preemption", "Setting", "place_of", "where"]

DEFAULTS = {
    "accountingstoragetype": "accounting_storage/none",
    "jobcomptype": "jobcomp/none",
    "jobrequeue": "1",
    "jobfileappend": "0",
    "killonbadexit": "0",
    "killwait": "30",
    "maxbatchrequeue": "5",
    "minjobage": "300",
    "preemptexempttime": "0",
    "preemptmode": "OFF",
    "preemptparameters": "",
    "preempttype": "preempt/none",
    "requeueexit": "",
    "requeueexithold": "",
    "returntoservice": "0",
    "schedulerparameters": "",
    "slurmctldparameters": "",
    "slurmdtimeout": "300",
}
"""What slurm.conf(5) says of a setting that is not there, by its name in lower case."""

PARTITION_DEFAULTS = {"default": "NO", "gracetime": "0", "maxtime": "UNLIMITED", "prioritytier": "1"}
"""The same of a line that defines a partition."""

_NAMES_ITS_CLUSTER = ("clustername", "slurmctldhost", "slurmctldhost[0]", "controlmachine")


class Preemption(msgspec.Struct, frozen=True):
    """How jobs of a partition, or of a QOS, are preempted."""

    kind: str
    """"partition" or "QOS"; "the cluster" where none of them is known."""
    name: str
    mode: str
    """"CANCEL", "REQUEUE" or "SUSPEND"."""
    grace_s: float | None
    """None: not known."""
    mode_set: Setting | None
    grace_set: Setting | None
    """The settings that say it; None where that is a default."""


class Policy:
    """What is known of a cluster's rules, from one or several files.

    `get` gives None for what nothing tells, which is not the same as a default: a dump that stops early does not
    say what it leaves out, and neither does a file whose included files are missing.
    """

    def __init__(self, sources: Sequence[Source], find_include: FindInclude = lambda near, path: None) -> None:
        self.sources = tuple(sources)
        self.files = list(sources)
        """These, and those that they include."""
        self._written = Written()
        self._nodes: dict[str, frozenset[str] | None] = {}

        def find(near: str, path: str) -> Source | None:
            found = find_include(near, path)
            self.files += [found] if found is not None else []
            return found

        for source in sources:
            read_into(self._written, source, find)

    @property
    def path(self) -> str:
        return self.sources[0].path

    @property
    def source(self) -> Source:
        return self.sources[0]

    @property
    def settings(self) -> dict[str, Setting]:
        """All that are written down, by their names in lower case."""
        return self._written.settings

    @property
    def partitions(self) -> dict[str, dict[str, Setting]]:
        return self._written.partitions

    @property
    def qos(self) -> dict[str, dict[str, Setting]]:
        return self._written.qos

    @property
    def problems(self) -> list[Problem]:
        """What could not be read of it."""
        return self._written.problems

    @property
    def is_complete(self) -> bool:
        """A setting that is not there has its default."""
        written = self._written
        return written.has_whole_dump or (written.has_conf and not written.has_gaps)

    @property
    def is_whole_cluster(self) -> bool:
        """It is complete, and no part of something larger: it names the cluster, or its controller."""
        return self.is_complete and any(name in self.settings for name in _NAMES_ITS_CLUSTER)

    @property
    def place(self) -> Setting:
        """What to point at when something is missing: the file that would hold it."""
        first = Setting("", "", self.path, WHOLE_FILE)
        named = [self.settings[name] for name in _NAMES_ITS_CLUSTER if name in self.settings]
        return msgspec.structs.replace((named or list(self.settings.values()) or [first])[0], span=WHOLE_FILE)

    def setting(self, name: str) -> Setting | None:
        """A setting that is written down somewhere."""
        return self.settings.get(name.lower())

    def get(self, name: str) -> str | None:
        """A setting's value, "" where it is set to nothing; its default where it is not set; None if not known."""
        found = self.setting(name)
        if found is not None:
            return _value(found)
        is_known = self.is_complete and name.lower() not in self._written.unknown
        return DEFAULTS.get(name.lower()) if is_known else None

    def partition(self, partition: str, name: str) -> str | None:
        """A partition's own setting, such as "GraceTime" or "MaxTime"; None where it is not known."""
        found = self.partitions.get(partition, {}).get(name.lower())
        if found is not None:
            return _value(found)
        is_known = partition in self._written.of_conf and name.lower() not in self._written.unknown
        return PARTITION_DEFAULTS.get(name.lower()) if is_known else None

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
        return self.seconds("KillWait")

    def seconds(self, name: str) -> float | None:
        text = self.get(name)
        return None if text is None else parse_seconds(text)

    @property
    def exempt_s(self) -> float | None:
        """How long a job runs before it may be preempted (PreemptExemptTime); 0 if that is not so."""
        text = self.get("PreemptExemptTime")
        return None if text is None else parse_slurm_duration(text) or 0.0

    def is_true(self, name: str) -> bool | None:
        text = self.get(name)
        return None if text is None else text.strip().lower() in ("1", "yes", "true")

    @property
    def has_gang(self) -> bool | None:
        """Suspended jobs are resumed."""
        mode = self.get("PreemptMode")
        return None if mode is None else "GANG" in _words(mode)

    @property
    def preemptions(self) -> list[Preemption]:
        """How jobs are preempted, for each partition or QOS where they are; empty if nobody is, or nothing is known."""
        kind = (self.get("PreemptType") or "").lower().removeprefix("preempt/")
        if kind == "partition_prio":
            found = [self._of_partition(name) for name in self.partitions if self._is_below_another(name)]
            is_told = bool(self.partitions)
        elif kind == "qos":
            beaten = {name for row in self.qos.values() if "preempt" in row for name in row["preempt"].value.split(",")}
            found = [self._of_qos(name) for name in self.qos if name in beaten]
            is_told = bool(self.qos)
        else:
            return []
        if not is_told:
            found = [self._preemption("the cluster", "", None, None, None)]
        return [preemption for preemption in found if preemption is not None]

    def _is_below_another(self, partition: str) -> bool:
        """Only jobs of a partition with a lower PriorityTier than another one's, of the same nodes, are preempted."""
        own = self.partition(partition, "PriorityTier") or ""
        for name in self.partitions:
            tier = self.partition(name, "PriorityTier") or ""
            is_above = not own.isdigit() or not tier.isdigit() or int(tier) > int(own)
            if name != partition and is_above and self._have_nodes_in_common(partition, name):
                return True
        return False

    def _have_nodes_in_common(self, one: str, other: str) -> bool:
        nodes, others = self._nodes_of(one), self._nodes_of(other)
        return nodes is None or others is None or bool(nodes & others)

    def _nodes_of(self, partition: str) -> frozenset[str] | None:
        """None for all of them, and where they are not known."""
        if partition not in self._nodes:
            text = self.partition(partition, "Nodes") or "ALL"
            try:
                self._nodes[partition] = None if text.upper() == "ALL" else frozenset(expand_hosts(text))
            except ValueError:
                self._nodes[partition] = None
        return self._nodes[partition]

    def _of_partition(self, name: str) -> Preemption | None:
        own = self.partitions[name]
        grace = parse_seconds(self.partition(name, "GraceTime") or "")
        return self._preemption("partition", name, own.get("preemptmode"), grace, own.get("gracetime"))

    def _of_qos(self, name: str) -> Preemption | None:
        own = self.qos[name]
        grace = own.get("gracetime")
        seconds = parse_seconds(grace.value) if grace is not None else None
        return self._preemption("QOS", name, own.get("preemptmode"), seconds, grace)

    def _preemption(
        self, kind: str, name: str, own: Setting | None, grace_s: float | None, grace: Setting | None
    ) -> Preemption | None:
        is_own = own is not None and _value(own).upper() not in ("", "CLUSTER")
        decides = own if is_own else self.setting("PreemptMode")
        if decides is None:
            return None
        known = [mode for mode in ("SUSPEND", "REQUEUE", "CANCEL") if mode in _words(decides.value)]
        return Preemption(kind, name, known[0], grace_s, decides, grace) if known else None


def where(preemptions: Sequence[Preemption]) -> str:
    """In words, for messages.

    >>> where([Preemption("partition", name, "CANCEL", 0, None, None) for name in ("a", "b", "c", "d")])
    'partition a, b and 2 more'
    """
    names = [preemption.name for preemption in preemptions]
    told = ", ".join(names[:3]) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
    return f"{preemptions[0].kind} {told}".rstrip()


def _value(setting: Setting) -> str:
    return "" if setting.value.lower() in NOTHING else setting.value


def _words(text: str) -> list[str]:
    return [word.strip().upper() for word in text.split(",")]


def place_of(setting: Setting | None, policy: Policy) -> tuple[Span, str]:
    """Span and path of a setting, or where to say that it is missing."""
    found = setting or policy.place
    return found.span, found.path
