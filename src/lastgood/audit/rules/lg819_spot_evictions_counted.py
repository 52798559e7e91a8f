"""LG819: on machines that are taken away by design, and each time counts as a failure."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import SPARE_EVICTIONS
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if (
        manifest.kind not in ("Job", "CronJob")
        or manifest.is_owned
        or not manifest.is_complete
        or not is_long(manifest)
    ):
        return
    for group in manifest.groups:
        job, spot = group.job, group.spot
        if job is not None and spot is not None and job.counts_evictions:
            # A toleration lets it run there; a selector makes it.
            runs = "may run" if spot.has("key") and not spot.has("values") else "runs"
            yield Hit(
                span=spot.with_key,
                message=f"it {runs} on spot machines, and each one that is taken away counts as a failure: after {job.backoff_limit} of "
                "them the next one fails the Job for good, though the program made no mistake",
                remedy=f"`restartPolicy: Never` with {SPARE_EVICTIONS}",
            )


RULE = Rule(
    code="LG819",
    name="spot-evictions-counted",
    severity=Severity.MAY_BE_LOST,
    what="A Job on spot or preemptible nodes whose backoffLimit counts evictions.",
    why="Losing the machine is the normal case there, not a failure. Without a rule for the condition DisruptionTarget each loss uses "
    "up a retry.",
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
      nodeSelector:
        cloud.google.com/gke-spot: "true"
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
  backoffLimit: 6
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions:
      - type: DisruptionTarget
  template:
    spec:
      restartPolicy: Never
      nodeSelector:
        cloud.google.com/gke-spot: "true"
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --resume]
""",
    safe_to_ignore="The job is so short that it seldom loses its machine.",
    source="Kubernetes documentation, Jobs: Pod failure policy; KEP-3329",
    reads=Manifest,
    check=check,
)
