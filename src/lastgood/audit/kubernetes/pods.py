"""Pods that one template makes, and the Job specifications that count their failures."""

from functools import cached_property

import msgspec

from lastgood.audit.kubernetes.commands import Container
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.source import Span

DEFAULT_GRACE_S = 30
DEFAULT_BACKOFF_LIMIT = 6
SPARE_EVICTIONS = "`podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}`"
"""What keeps evictions out of the count of a Job's failures."""
FEW_RETRIES = 4
_FAR_ABOVE = 1000
_FIRST_DELAY_S = 10
_LONGEST_DELAY_S = 360
_SPOT = (
    "gke-spot",
    "gke-preemptible",
    "gke-provisioning=spot",
    "capacitytype=spot",
    "capacity-type=spot",
    "capacity-type=preemptible",
    "scalesetpriority=spot",
    "lifecycle=spot",
    "lifecycle=ec2spot",
    "spot=true",
    "preemptible=true",
)


class JobPart:
    """The specification of a batch/v1 Job, alone or inside of something that owns it."""

    def __init__(self, spec: Value, role: str, replicas: int | None) -> None:
        self.spec = spec
        self.role = role
        """The name of the replicated Job in a JobSet; empty for a Job of its own."""
        self.replicas = replicas

    @property
    def backoff_limit(self) -> int | None:
        """None: it is filled in later."""
        if self.spec.has("backoffLimitPerIndex"):
            return self.spec.number("backoffLimitPerIndex")
        return self.spec.number("backoffLimit", DEFAULT_BACKOFF_LIMIT)

    @property
    def has_own_backoff_limit(self) -> bool:
        return self.spec.has("backoffLimit") or self.spec.has("backoffLimitPerIndex")

    @property
    def is_without_end(self) -> bool:
        """It retries for as long as something else lets it: whoever wrote this owns the retries somewhere else."""
        limit = self.backoff_limit
        return limit is not None and limit >= _FAR_ABOVE

    @property
    def failure_rules(self) -> list[Value]:
        return self.spec.elements("podFailurePolicy", "rules")

    @property
    def spares_disruptions(self) -> bool:
        """A rule says what is to be done when a pod is evicted."""
        return any(
            condition.text("type") == "DisruptionTarget"
            for rule in self.failure_rules
            for condition in rule.elements("onPodConditions")
        )

    @property
    def counts_evictions(self) -> bool:
        """An eviction takes one of a few retries."""
        return bool(self.backoff_limit) and not self.is_without_end and not self.spares_disruptions

    @property
    def pods_at_once(self) -> int | None:
        """In one Job; None: it is filled in later."""
        return self.spec.number("parallelism", 1)

    @property
    def is_indexed(self) -> bool:
        return self.spec.known("completionMode") == "Indexed"


class PodGroup(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The pods of one template."""

    role: str
    """"Worker", a replicated Job's name, ...; empty where there is but one."""
    template: Value
    """The mapping that holds `spec`, or a trainer that stands for it."""
    spec: Value
    """The pod's specification."""
    containers: tuple[Container, ...]
    pods: int | None
    """At the same time; None: it is filled in later."""
    restart_policy: str
    """With the default of its kind; empty: it is filled in later."""
    restart_place: Span
    says_restart_policy: bool
    """It is written down, not only its kind's default."""
    job: JobPart | None = None

    @property
    def volumes(self) -> dict[str, Value]:
        return {volume.text("name"): volume for volume in self.spec.elements("volumes") if volume.text("name")}

    def store_of(self, mount: Value) -> tuple[str, Value] | None:
        """("emptyDir", ...) what kind of volume a mount shows, and its entry; None if it is not to be seen here."""
        volume = self.volumes.get(mount.text("name"))
        if volume is None:
            return None
        kind = next((key for key, _ in volume.items() if key != "name"), "")
        return (kind, volume) if kind else None

    def sharers(self, mount: Value) -> list[Container]:
        """Containers that mount the same volume, those that only prepare left out."""
        name = mount.text("name")
        sidecars = [v for v in self.spec.elements("initContainers") if v.text("restartPolicy") == "Always"]
        everybody = [*self.containers, *map(Container, sidecars)]
        return [c for c in everybody if any(m.text("name") == name for m in c.mounts)]

    @property
    def grace_s(self) -> int | None:
        """None: it is filled in later."""
        return self.spec.number("terminationGracePeriodSeconds", DEFAULT_GRACE_S)

    @property
    def grace_place(self) -> Span | None:
        found = self.spec.get("terminationGracePeriodSeconds")
        return found.with_key if found is not None else None

    @cached_property
    def resources(self) -> set[str]:
        return set().union(*(container.resources() for container in self.containers))

    @property
    def is_on_one_node(self) -> bool:
        """All its pods are told to run on the same machine."""
        if self.spec.known("nodeName") or self.spec.has("nodeSelector", "kubernetes.io/hostname"):
            return True
        required = self.spec.elements("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        return any(term.text("topologyKey") == "kubernetes.io/hostname" for term in required)

    @property
    def is_pinned(self) -> bool:
        """It comes back on the machine that it was on."""
        return bool(self.spec.text("nodeName") or self.spec.has("nodeSelector", "kubernetes.io/hostname"))

    @cached_property
    def spot(self) -> Value | None:
        """What sends it to machines that may be taken away: a selector, a toleration or an affinity."""
        selector = self.spec.get("nodeSelector")
        for key, value in selector.items() if selector is not None else ():
            if _is_spot(key, value.text()):
                return value
        for toleration in self.spec.elements("tolerations"):
            if _is_spot(toleration.text("key"), toleration.text("value") or "true"):
                return toleration
        terms = self.spec.elements(
            "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
        for term in terms:
            for wanted in term.elements("matchExpressions"):
                texts = [value.text() for value in wanted.elements("values")] or ["true"]
                if wanted.text("operator") == "In" and all(_is_spot(wanted.text("key"), text) for text in texts):
                    return wanted
        return None


def retry_delays_s(retries: int) -> int:
    """How long the Job controller waits in all before it has used up its retries, if each attempt fails at once.

    >>> retry_delays_s(3), retry_delays_s(6), retry_delays_s(20)
    (70, 630, 5670)
    """
    return sum(min(_FIRST_DELAY_S * 2**i, _LONGEST_DELAY_S) for i in range(retries))


def _is_spot(key: str, value: str) -> bool:
    if value.lower() in ("false", "on-demand", "on_demand", "standard"):
        return False
    pair = f"{key}={value}".lower()
    return any(mark in pair for mark in _SPOT)
