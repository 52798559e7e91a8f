"""LG824: the next run of a CronJob starts beside the last one, over the same checkpoints."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import places_of
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind != "CronJob" or not is_long(manifest):
        return
    policy = manifest.root.get("spec", "concurrencyPolicy")
    if policy.known() != "Allow" if policy is not None else not manifest.is_complete:
        return
    if not any(place.is_sure and place.is_known for group in manifest.groups for place in places_of(group)):
        return
    yield Hit(
        span=policy.with_key if policy is not None else manifest.place,
        message="a run that is still busy when the next is due is not waited for: both write to the same checkpoints",
        remedy="`concurrencyPolicy: Forbid`",
    )


RULE = Rule(
    code="LG824",
    name="runs-of-a-cronjob-overlap",
    severity=Severity.MAY_BE_LOST,
    what="A CronJob with checkpoints that does not forbid its runs to overlap.",
    why="concurrencyPolicy is Allow if nothing is said. A run that takes longer than usual, since it was restarted for example, gets "
    "company, and two processes write and rotate the same checkpoints.",
    bad="""\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: retrain
spec:
  schedule: "0 2 * * *"
  jobTemplate:
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
            command: [python, train.py, --checkpoint-dir=/ckpt]
            volumeMounts:
            - {name: ckpt, mountPath: /ckpt}
          volumes:
          - name: ckpt
            persistentVolumeClaim: {claimName: ckpt}
""",
    good="""\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: retrain
spec:
  schedule: "0 2 * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
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
            command: [python, train.py, --checkpoint-dir=/ckpt]
            volumeMounts:
            - {name: ckpt, mountPath: /ckpt}
          volumes:
          - name: ckpt
            persistentVolumeClaim: {claimName: ckpt}
""",
    safe_to_ignore="Each run writes somewhere else.",
    source="Kubernetes documentation, CronJob: concurrency policy",
    reads=Manifest,
    check=check,
)
