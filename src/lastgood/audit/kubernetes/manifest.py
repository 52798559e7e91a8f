"""A workload of a manifest as rules see it."""

from functools import cached_property

import msgspec

from lastgood.audit.kubernetes.commands import Container
from lastgood.audit.kubernetes.pods import JobPart, PodGroup
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.source import Source, Span

REPLICAS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}
"""Kinds of the training operator, and where their pods stand."""
GROUPS = {
    "Job": ("batch/", "batch.volcano.sh/"),
    "CronJob": ("batch/",),
    "Pod": ("v1",),
    "JobSet": ("jobset.x-k8s.io/",),
    "TrainJob": ("trainer.kubeflow.org/",),
    "RayJob": ("ray.io/",),
    **dict.fromkeys(REPLICAS, ("kubeflow.org/",)),
}
"""All kinds that are read, with the API groups that have them: others use the same names."""
KINDS = tuple(GROUPS)
_MOST_CONTAINERS = 60
_BY_DEFAULT = {"PyTorchJob": "OnFailure", "PaddleJob": "OnFailure"}
"""What the training operator (1.9) fills in; Never for the others."""
VOLCANO = "batch.volcano.sh"
_COUPLING_PROGRAMS = ("torchrun", "deepspeed", "accelerate", "mpirun")
_COUPLING_VARIABLES = frozenset(
    "MASTER_ADDR MASTER_PORT WORLD_SIZE NNODES RDZV_ENDPOINT COORDINATOR_ADDRESS JAX_COORDINATOR_ADDRESS "
    "MEGASCALE_COORDINATOR_ADDRESS PET_RDZV_ENDPOINT PET_NNODES NCCL_SOCKET_IFNAME".split()
)


class Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim of the same file."""

    name: str
    modes: tuple[str, ...]
    span: Span


class Manifest:
    """One Job, CronJob, Pod, JobSet, TrainJob, RayJob, or job of the training operator or of Volcano."""

    def __init__(
        self,
        root: Value,
        claims: dict[str, Claim] | None = None,
        filled_in: tuple[int, ...] = (),
    ) -> None:
        self.root = root
        self.source: Source = root.source
        self.claims = claims or {}
        """By their names."""
        self.filled_in = filled_in
        """Lines of it that a template decides about: what is not there now may be there later."""

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def kind(self) -> str:
        return self.root.text("kind")

    @property
    def api(self) -> str:
        """Group and version, such as "batch/v1"."""
        return self.root.text("apiVersion")

    @property
    def name(self) -> str:
        return self.root.known("metadata", "name") or self.root.known("metadata", "generateName").rstrip("-")

    @property
    def place(self) -> Span:
        """Where it says what it is."""
        kind = self.root.get("kind")
        return kind.with_key if kind is not None else self.root.span

    @property
    def is_volcano(self) -> bool:
        return self.api.startswith(VOLCANO)

    @property
    def is_complete(self) -> bool:
        """What is not there will not be there when it is applied: no template, no patch, no runtime adds to it."""
        if self.filled_in or self.kind in ("TrainJob", "RayJob"):
            return False
        return bool(self.groups) and all(
            group.containers and all(container.value.has("image") for container in group.containers)
            for group in self.groups
        )

    @property
    def is_owned(self) -> bool:
        """Something else looks after its retries."""
        manager = self.root.text("spec", "managedBy")
        return bool(self.root.elements("metadata", "ownerReferences")) or (
            manager not in ("", "kubernetes.io/job-controller")
        )

    @property
    def uses_lastgood(self) -> bool:
        """Its work runs under our launcher, which owns restarts, signals and exit codes."""
        return any(
            run.launch.wrapper("lastgood") for group in self.groups for c in group.containers for run in c.runs
        ) or any(
            c.shell is not None and c.shell.script.uses_lastgood for group in self.groups for c in group.containers
        )

    @cached_property
    def job_spec(self) -> Value | None:
        """Of a Job or CronJob."""
        if self.is_volcano:
            return None
        if self.kind == "Job":
            return self.root.get("spec")
        return self.root.get("spec", "jobTemplate", "spec") if self.kind == "CronJob" else None

    @cached_property
    def groups(self) -> tuple[PodGroup, ...]:
        spec = self.root.get("spec")
        if spec is None:
            return ()
        if self.kind == "Pod":
            return _some(_group("", self.root, 1, "Always"))
        if self.job_spec is not None:
            job = JobPart(self.job_spec, "", 1)
            return _some(_group("", self.job_spec.get("template"), job.pods_at_once, "Always", job))
        if self.is_volcano:
            return _some(
                *(
                    _group(t.text("name"), t.get("template"), t.number("replicas", 1), "")
                    for t in spec.elements("tasks")
                )
            )
        if self.kind == "JobSet":
            return _some(*map(_replicated, spec.elements("replicatedJobs")))
        if self.kind == "TrainJob":
            return _some(_trainer(spec))
        if self.kind == "RayJob":
            return _some(*_ray(spec))
        return _some(*self._operator(spec))

    @property
    def all_claims(self) -> list[Claim]:
        """Those of the file, and those that a JobSet makes for its pods, which mount them by their name."""
        own = []
        for policy in self.root.elements("spec", "volumeClaimPolicies") if self.kind == "JobSet" else ():
            for template in policy.elements("templates"):
                modes = template.elements("spec", "accessModes")
                name = template.known("metadata", "name")
                own.append(Claim(name, tuple(mode.text() for mode in modes), template.span))
        return [*self.claims.values(), *own]

    @property
    def jobs(self) -> tuple[JobPart, ...]:
        """The batch/v1 Jobs that it is or makes, with their specifications written out."""
        return tuple(group.job for group in self.groups if group.job is not None)

    @property
    def pods_at_once(self) -> int | None:
        """Over all groups; None if it is filled in later."""
        counts = [group.pods for group in self.groups]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)

    @cached_property
    def is_coupled(self) -> bool:
        """Its pods compute together: one that is missing holds up all."""
        many = self.pods_at_once
        if many is not None and many < 2:
            return False
        if self.kind in ("PyTorchJob", "MPIJob", "PaddleJob", "JAXJob", "TrainJob", "XGBoostJob"):
            return True
        if self.kind == "TFJob":
            # Workers of parameter servers go on without each other.
            return not any(group.role.lower() in ("ps", "parameterserver") for group in self.groups)
        if self.kind in ("Job", "CronJob", "JobSet"):
            return any(map(_couples, (c for group in self.groups for c in group.containers)))
        return False

    def _operator(self, spec: Value) -> "list[PodGroup | None]":
        replicas = spec.get(REPLICAS.get(self.kind, ""))
        found = []
        for role, entry in replicas.items() if replicas is not None else ():
            default = _BY_DEFAULT.get(self.kind, "Never")
            if self.kind == "MPIJob" and self.api.endswith("v2beta1") and role == "Launcher":
                default = "OnFailure"
            group = _group(role, entry.get("template"), entry.number("replicas", 1), default)
            policy = entry.get("restartPolicy")
            if group is not None:
                # The operator overwrites what the template says.
                own = policy.known() if policy is not None else default
                place = policy.with_key if policy is not None else entry.with_key
                group = msgspec.structs.replace(
                    group, restart_policy=own, restart_place=place, says_restart_policy=policy is not None
                )
            found.append(group)
        return found


def _some(*groups: PodGroup | None) -> tuple[PodGroup, ...]:
    """Those that are there, as many as there can be without aliases."""
    some: list[PodGroup] = []
    containers = 0
    for group in groups:
        if group is not None and containers < _MOST_CONTAINERS:
            some.append(group)
            containers += len(group.containers)
    return tuple(some)


def _group(
    role: str, template: Value | None, pods: int | None, policy: str, job: JobPart | None = None
) -> PodGroup | None:
    spec = template.get("spec") if template is not None else None
    if template is None or spec is None:
        return None
    own = spec.get("restartPolicy")
    return PodGroup(
        role=role,
        template=template,
        spec=spec,
        containers=tuple(map(Container, spec.elements("containers")[:_MOST_CONTAINERS])),
        pods=pods,
        restart_policy=policy if own is None else own.known(),
        restart_place=own.with_key if own is not None else spec.with_key,
        says_restart_policy=own is not None,
        job=job,
    )


def _replicated(entry: Value) -> PodGroup | None:
    """A JobSet gives pods OnFailure where their template says nothing."""
    spec = entry.get("template", "spec")
    if spec is None:
        return None
    job = JobPart(spec, entry.text("name"), entry.number("replicas", 1))
    each, times = job.pods_at_once, job.replicas
    pods = each * times if each is not None and times is not None else None
    return _group(entry.text("name"), spec.get("template"), pods, "OnFailure", job)


def _trainer(spec: Value) -> PodGroup | None:
    trainer = spec.get("trainer")
    if trainer is None:
        return None
    container = Container(trainer)
    return PodGroup(
        role="trainer",
        template=trainer,
        spec=trainer,
        containers=(container,),
        pods=trainer.number("numNodes"),
        restart_policy="",
        restart_place=trainer.with_key,
        says_restart_policy=False,
    )


def _ray(spec: Value) -> "list[PodGroup | None]":
    cluster = spec.get("rayClusterSpec")
    if cluster is None:
        return []
    groups = [_group("head", cluster.get("headGroupSpec", "template"), 1, "Always")]
    workers = cluster.elements("workerGroupSpecs")
    groups += [_group("worker", worker.get("template"), worker.number("replicas", 1), "Always") for worker in workers]
    return groups


def _couples(container: Container) -> bool:
    if _COUPLING_VARIABLES & container.environment.keys():
        return True
    names = {wrapper.name for run in container.runs for wrapper in run.launch.wrappers}
    return not names.isdisjoint(_COUPLING_PROGRAMS)
