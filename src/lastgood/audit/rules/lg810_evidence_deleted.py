"""LG810: what is left of a failed job is deleted before anybody can have looked at it."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration

_SOON_S = 3600


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    spec = manifest.root.get("spec")
    if spec is None or not is_long(manifest):
        return
    for holder in (manifest.job_spec or spec, spec.get("runPolicy")):
        ttl = holder.number("ttlSecondsAfterFinished") if holder is not None else None
        place = holder.get("ttlSecondsAfterFinished") if holder is not None else None
        if ttl is not None and place is not None and 0 <= ttl < _SOON_S:
            when = f"{duration(ttl)} after it ended" if ttl else "as soon as it ends"
            yield Hit(
                span=place.with_key,
                message=f"the job is deleted {when}, also when it failed, and with it its pods, their logs and the reason",
                remedy="`ttlSecondsAfterFinished: 604800` (a week)",
            )
    yield from _others(manifest, spec)


def _others(manifest: Manifest, spec: Value) -> Iterator[Hit]:
    pods = spec.get("runPolicy", "cleanPodPolicy") or spec.get("cleanPodPolicy")
    if pods is not None and pods.known() == "All" and manifest.kind != "MPIJob":
        yield Hit(
            span=pods.with_key,
            message="cleanPodPolicy All deletes the pods of a failed job too, with their logs and exit codes",
            remedy="`cleanPodPolicy: Running`",
        )
    kept = spec.get("failedJobsHistoryLimit")
    if manifest.kind == "CronJob" and kept is not None and kept.known() == "0":
        yield Hit(
            span=kept.with_key,
            message="failedJobsHistoryLimit 0 deletes a run as soon as it has failed, with its pods and their logs",
            remedy="`failedJobsHistoryLimit: 3`",
        )


RULE = Rule(
    code="LG810",
    name="evidence-deleted",
    severity=Severity.NOTE,
    what="A failed job that is deleted within an hour: `ttlSecondsAfterFinished`, `cleanPodPolicy: All`, "
    "`failedJobsHistoryLimit: 0`.",
    why="Why a job failed is in the state of its pods (exit code, OOMKilled, evicted) and their logs. They go with the Job; a "
    "job that fails at night has no reason left in the morning.",
    bad="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 20
  ttlSecondsAfterFinished: 100
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
        command: [python, train.py, --resume]
""",
    good="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 20
  ttlSecondsAfterFinished: 604800
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
        command: [python, train.py, --resume]
""",
    safe_to_ignore="Logs and events are collected somewhere else.",
    source="Kubernetes documentation, Automatic cleanup for finished Jobs; training operator, RunPolicy",
    reads=Manifest,
    check=check,
)
