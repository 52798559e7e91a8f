"""LG811: a deadline that counts all attempts together, after which none follows."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import REPLICAS, Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.is_owned or manifest.uses_lastgood or not is_long(manifest):
        return
    for place in _deadlines(manifest):
        seconds = place.known()
        if seconds.isdigit():
            yield Hit(
                span=place.with_key,
                message=f"activeDeadlineSeconds counts from the first start over all retries: {duration(int(seconds))} later the "
                "job fails for good, however many retries are left, also if waiting for nodes took most of that time",
                remedy="leave it out, or set it in the pod template, where it is the limit of one attempt",
            )


def _deadlines(manifest: Manifest) -> Iterator[Value]:
    spec = manifest.root.get("spec")
    holders = []
    if manifest.kind in ("Job", "CronJob"):
        holders = [job.spec for job in manifest.jobs if job.backoff_limit != 0]
    elif manifest.kind == "TrainJob" and spec is not None:
        holders = [spec]
    elif manifest.kind in REPLICAS and spec is not None:
        run = spec.get("runPolicy")
        holders = [run] if run is not None else []
    for holder in holders:
        found = holder.get("activeDeadlineSeconds")
        if found is not None:
            yield found


RULE = Rule(
    code="LG811",
    name="deadline-over-all-retries",
    severity=Severity.NOTE,
    what="A long job with `activeDeadlineSeconds` of its own, not of its pods.",
    why="The deadline of a Job is for all its attempts together and goes before backoffLimit: when it is over, all pods are "
    "stopped and the Job is Failed with the reason DeadlineExceeded. Time that was lost to failures counts.",
    bad="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 20
  activeDeadlineSeconds: 172800
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
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions:
      - type: DisruptionTarget
  template:
    spec:
      restartPolicy: Never
      activeDeadlineSeconds: 172800
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --resume]
""",
    safe_to_ignore="It bounds the cost on purpose, and a job that did not finish by then is not wanted any more.",
    source="Kubernetes documentation, Jobs: Job termination and cleanup",
    reads=Manifest,
    check=check,
)
