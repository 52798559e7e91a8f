"""LG803: no podFailurePolicy, so that a drain uses up a retry and running out of memory is repeated."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import FEW_RETRIES, SPARE_EVICTIONS, JobPart, PodGroup, retry_delays_s
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Span
from lastgood.core.units import duration


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind not in ("Job", "CronJob") or manifest.is_owned or manifest.uses_lastgood:
        return
    if not manifest.is_complete or not is_long(manifest):
        return
    for group in manifest.groups:
        job = group.job
        if job is None or not job.counts_evictions or group.spot is not None:
            continue
        limit = job.backoff_limit or 0
        if group.restart_policy == "OnFailure":
            what = "restartPolicy OnFailure allows no podFailurePolicy"
        else:
            what = "its podFailurePolicy has no rule for evictions" if job.failure_rules else "no podFailurePolicy"
        yield Hit(
            span=_place(manifest, group, job),
            message=f"{what}: a drain or preemption uses up {'the one retry' if limit == 1 else f'one of the {limit} retries'} like a crash of the program, and "
            "running out of memory is tried again as often" + _soon(limit),
            remedy=f"`restartPolicy: Never` with {SPARE_EVICTIONS}",
        )


def _soon(limit: int) -> str:
    return f" (all within {duration(retry_delays_s(limit))}, if they fail at once)" if limit <= FEW_RETRIES else ""


def _place(manifest: Manifest, group: PodGroup, job: JobPart) -> Span:
    if group.restart_policy == "OnFailure":
        return group.restart_place
    limit = job.spec.get("podFailurePolicy") or job.spec.get("backoffLimit")
    return limit.with_key if limit is not None else manifest.place


RULE = Rule(
    code="LG803",
    name="evictions-count-as-failures",
    severity=Severity.NOTE,
    what="A long Job without a podFailurePolicy that has a rule for the condition DisruptionTarget.",
    why="backoffLimit counts every failed pod, whatever the reason. Drains, preemptions and evictions of a long job add up "
    "until the Job is Failed, though the program never made a mistake; and a program that runs out of memory fails again in "
    "the same place until all retries are used up.",
    bad="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 6
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
  backoffLimit: 6
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions:
      - type: DisruptionTarget
    - action: FailJob
      onExitCodes:
        containerName: train
        operator: In
        values: [2, 137]
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
    safe_to_ignore="The job is short against the time between two drains, or the cluster is older than 1.26.",
    source="Kubernetes documentation, Jobs: Pod failure policy; KEP-3329",
    reads=Manifest,
    check=check,
)
