"""LG805: checkpoints in an emptyDir, which goes with the pod."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import is_left_alone, stores
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if not is_long(manifest):
        return
    told: set[str] = set()
    for group, place in stores(manifest):
        if place.mount is None or is_left_alone(place) or len(group.sharers(place.mount)) > 1:
            continue
        store = group.store_of(place.mount)
        name = place.mount.text("name")
        if store is None or store[0] != "emptyDir" or name in told:
            continue
        told.add(name)
        in_memory = "in memory, " if store[1].text("emptyDir", "medium") == "Memory" else ""
        perhaps = "" if place.is_sure else ", if checkpoints are written there"
        yield Hit(
            span=place.span,
            message=f"{place.label} is on the emptyDir {name} ({in_memory}deleted with its pod): after a drain, an eviction "
            f"or a dead node the next pod starts from zero{perhaps}",
            remedy=f"`persistentVolumeClaim: {{claimName: {name}}}` instead of the emptyDir, or copy away each checkpoint",
            severity=None if place.is_sure else Severity.MAY_BE_LOST,
        )


RULE = Rule(
    code="LG805",
    name="checkpoints-in-emptydir",
    severity=Severity.LOST,
    what="A directory for checkpoints, named by an option, a variable or a mount, on an emptyDir volume.",
    why="An emptyDir lives as long as its pod. It survives a restarted container, but every failure that replaces the pod "
    "takes all checkpoints with it: drain, eviction, preemption, loss of the node.",
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
        emptyDir: {sizeLimit: 200Gi}
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
        - {name: shm, mountPath: /dev/shm}
      volumes:
      - name: ckpt
        persistentVolumeClaim: {claimName: ckpt}
      - name: shm
        emptyDir: {medium: Memory}
""",
    safe_to_ignore="The program itself copies each checkpoint to storage that stays, and looks for it there when it starts.",
    source="Kubernetes documentation, Volumes: emptyDir",
    reads=Manifest,
    check=check,
)
