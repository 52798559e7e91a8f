"""LG806: checkpoints in a hostPath, which only pods of one node see."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import is_left_alone, may_be_shared, stores
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if not is_long(manifest):
        return
    told: set[str] = set()
    for group, place in stores(manifest):
        if place.mount is None or is_left_alone(place) or group.is_pinned:
            continue
        store = group.store_of(place.mount)
        name = place.mount.text("name")
        host = store[1].known("hostPath", "path") if store is not None else ""
        if not host or name in told or may_be_shared(host):
            continue
        told.add(name)
        yield Hit(
            span=place.span,
            message=f"{place.label} is on the hostPath {host}: unless that is a shared file system, a pod that comes back "
            "on another node does not see its checkpoints, and starts from zero",
            remedy=f"`persistentVolumeClaim: {{claimName: {name}}}` instead of the hostPath",
        )


RULE = Rule(
    code="LG806",
    name="checkpoints-on-one-node",
    severity=Severity.MAY_BE_LOST,
    what="A directory for checkpoints on a hostPath that does not look like a shared file system.",
    why="A hostPath is a directory of whichever node the pod runs on. The scheduler does not know that the checkpoints are "
    "on one of them: after a drain or a dead node the pod comes back elsewhere, with another directory under that path.",
    bad="""\
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
        command: [python, train.py, --checkpoint-dir=/ckpt]
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        hostPath: {path: /var/lib/checkpoints}
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
        command: [python, train.py, --checkpoint-dir=/ckpt]
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        hostPath: {path: /mnt/lustre/checkpoints}
""",
    safe_to_ignore="The path is on a file system that all nodes mount, or the job can only run on that one node.",
    source="Kubernetes documentation, Volumes: hostPath",
    reads=Manifest,
    check=check,
)
