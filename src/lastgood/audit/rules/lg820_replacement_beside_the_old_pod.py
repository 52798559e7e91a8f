"""LG820: the next pod starts while the last one still writes."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import DEFAULT_GRACE_S, PodGroup
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import places_of
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind not in ("Job", "CronJob") or manifest.is_owned or manifest.uses_lastgood:
        return
    if not manifest.is_complete or not is_long(manifest):
        return
    for group in manifest.groups:
        job, place = group.job, group.grace_place
        if job is None or place is None or (group.grace_s or 0) <= DEFAULT_GRACE_S or job.backoff_limit == 0:
            continue
        # A podFailurePolicy makes Failed the only choice.
        if job.spec.has("podReplacementPolicy") or job.spec.has("podFailurePolicy") or not _is_shared(group):
            continue
        yield Hit(
            span=place,
            message=f"a pod that is stopped may write for {group.grace_s} s more, and its replacement starts at once beside it: two "
            "write to the same checkpoints",
            remedy="`podReplacementPolicy: Failed` in the Job",
        )


def _is_shared(group: PodGroup) -> bool:
    """Checkpoints go to a volume that outlives the pod."""
    for place in places_of(group):
        store = group.store_of(place.mount) if place.mount is not None else None
        if place.is_sure and store is not None and store[0] in ("persistentVolumeClaim", "nfs", "hostPath", "csi"):
            return True
    return False


RULE = Rule(
    code="LG820",
    name="replacement-beside-the-old-pod",
    severity=Severity.NOTE,
    what="A Job with a long grace period and checkpoints on a lasting volume, without `podReplacementPolicy: Failed`.",
    why="By default a Job makes the replacement as soon as a pod is being deleted. The old pod goes on until its grace period is over; "
    "that is what it is for. Two processes then write, rotate and delete the same checkpoints.",
    bad="""\
apiVersion: batch/v1
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 100000
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 600
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
kind: Job
metadata:
  name: pretrain
spec:
  backoffLimit: 100000
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 600
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
    safe_to_ignore="Whoever writes checkpoints makes sure that it is alone, as with a lock or a fence.",
    source="kubernetes/kubernetes#115844; KEP-3939",
    reads=Manifest,
    check=check,
)
