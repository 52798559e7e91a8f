"""LG801: the first failure ends the job, and nothing starts it again."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import REPLICAS, Manifest
from lastgood.audit.kubernetes.pods import SPARE_EVICTIONS
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Span

_POLICY = f"`backoffLimit: 20`, with {SPARE_EVICTIONS}, so that a drain does not count"


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.is_owned or not is_long(manifest):
        return
    if manifest.kind in ("Job", "CronJob"):
        yield from _job(manifest)
    elif manifest.kind == "MPIJob":
        yield from _launcher(manifest)
    elif manifest.kind in REPLICAS:
        yield from _operator(manifest)


def _job(manifest: Manifest) -> Iterator[Hit]:
    for group in manifest.groups:
        job = group.job
        limit = job.spec.get("backoffLimit") if job is not None else None
        if job is None or limit is None or job.backoff_limit != 0 or job.spares_disruptions:
            continue
        with_policy = f"restartPolicy {group.restart_policy} with " if group.restart_policy else ""
        yield _hit(limit.with_key, with_policy + "backoffLimit 0", _POLICY)


def _launcher(manifest: Manifest) -> Iterator[Hit]:
    limit = manifest.root.get("spec", "runPolicy", "backoffLimit")
    if limit is not None and limit.known() == "0":
        yield _hit(limit.with_key, "backoffLimit 0 for the launcher", "`backoffLimit: 6`")


def _operator(manifest: Manifest) -> Iterator[Hit]:
    for group in manifest.groups:
        if group.restart_policy == "Never" and group.says_restart_policy:
            remedy = (
                f"`restartPolicy: OnFailure`, and for a {manifest.kind} of several pods a way for them to meet again"
            )
            if manifest.kind == "PyTorchJob":
                remedy = "`restartPolicy: OnFailure` and an `elasticPolicy`, with which the ranks meet again"
            message = f"restartPolicy Never in a {manifest.kind}: the first pod that fails ends all of it, and nothing starts it again"
            yield Hit(span=group.restart_place, message=message, remedy=remedy)
            return


def _hit(span: Span, what: str, remedy: str) -> Hit:
    message = f"{what}: the first failure ends the job, also a drain or a dead node, and nothing starts it again"
    return Hit(span=span, message=message, remedy=remedy)


RULE = Rule(
    code="LG801",
    name="job-without-retry",
    severity=Severity.MAY_BE_LOST,
    what="A Job with `backoffLimit: 0`, or a job of the training operator whose pods are never restarted, that no other "
    "controller starts again.",
    why="A pod that is evicted by a drain, preempted, or lost with its node counts as a failed pod. With no retries left the "
    "Job is Failed for good, and waits for somebody to see it and to create it again.",
    bad="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --checkpoint-dir=/ckpt, --resume]
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        persistentVolumeClaim: {claimName: ckpt}
""",
    good="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 20
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions:
      - type: DisruptionTarget
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --checkpoint-dir=/ckpt, --resume]
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        persistentVolumeClaim: {claimName: ckpt}
""",
    safe_to_ignore="Something else creates the job again: a workflow engine, an operator of your own.",
    source="Kubernetes documentation, Jobs: Pod backoff failure policy; kubernetes/kubernetes, pkg/controller/job",
    reads=Manifest,
    check=check,
)
