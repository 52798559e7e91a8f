"""LG807: checkpoints in the container's own file system."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import is_left_alone, stores
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    # What is not mounted here may be mounted by what a template fills in, or a runtime adds.
    if not manifest.is_complete or not is_long(manifest):
        return
    told: set[str] = set()
    for _, place in stores(manifest):
        if place.mount is not None or is_left_alone(place) or place.path in told:
            continue
        told.add(place.path)
        perhaps = "" if place.is_sure else ", if checkpoints are written there"
        yield Hit(
            span=place.span,
            message=f"{place.label} is {place.path}, where no volume is mounted: it is gone as soon as the container "
            f"restarts, and the next attempt starts from zero{perhaps}",
            remedy=f"mount a volume that stays: `volumeMounts: [{{name: ckpt, mountPath: {place.path}}}]`, "
            "`volumes: [{name: ckpt, persistentVolumeClaim: {claimName: ckpt}}]`",
            severity=None if place.is_sure else Severity.MAY_BE_LOST,
        )


RULE = Rule(
    code="LG807",
    name="checkpoints-in-the-container",
    severity=Severity.LOST,
    what="A directory for checkpoints, named by an option or a variable, on which no volume is mounted.",
    why="What a container writes outside of volumes is in its writable layer. A restarted container gets a new one, so even a "
    "crash that is restarted on the same node loses everything.",
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
        command: [python, train.py, --checkpoint-dir=/workspace/ckpt]
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
        command: [python, train.py, --checkpoint-dir=/workspace/ckpt]
        volumeMounts:
        - {name: work, mountPath: /workspace}
      volumes:
      - name: work
        persistentVolumeClaim: {claimName: work}
""",
    safe_to_ignore="The program itself copies each checkpoint to storage that stays, and looks for it there when it starts.",
    source="Kubernetes documentation, Volumes: on-disk files in a container are ephemeral",
    reads=Manifest,
    check=check,
)
