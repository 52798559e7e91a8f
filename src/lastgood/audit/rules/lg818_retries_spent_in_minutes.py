"""LG818: so few retries that an outage of minutes uses them all."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import FEW_RETRIES, retry_delays_s
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind not in ("Job", "CronJob") or manifest.is_owned or manifest.uses_lastgood or not is_long(manifest):
        return
    for job in manifest.jobs:
        place, limit = job.spec.get("backoffLimit"), job.backoff_limit
        # Where evictions count as well, LG803 says both.
        if job.counts_evictions and manifest.is_complete:
            continue
        if place is None or job.spec.has("backoffLimitPerIndex") or limit is None or not 0 < limit <= FEW_RETRIES:
            continue
        yield Hit(
            span=place.with_key,
            message=f"{'one retry follows' if limit == 1 else f'{limit} retries follow'} within about {duration(retry_delays_s(limit))} (a back-off of 10 s, doubled each time): a storage, "
            "registry or network outage that lasts longer uses up all, and the job fails for good",
            remedy="`backoffLimit: 20` (about 95 min)",
        )


RULE = Rule(
    code="LG818",
    name="retries-spent-in-minutes",
    severity=Severity.NOTE,
    what="A long Job with one to four retries.",
    why="The Job controller waits 10 s, 20 s, 40 s and so on, at most 6 min, between retries. An attempt that fails at its start, "
    "since storage is away for example, is followed by the next so soon that four of them are over in less than 3 min.",
    bad="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 3
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
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --resume]
""",
    safe_to_ignore="Somebody is told when it fails and starts it again; or the program waits by itself for what it needs.",
    source="Kubernetes documentation, Jobs: Pod backoff failure policy",
    reads=Manifest,
    check=check,
)
