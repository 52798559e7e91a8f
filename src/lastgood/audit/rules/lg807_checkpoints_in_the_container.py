"""LG807: checkpoints in the container's own file system."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import carries_away, has_lasting_volume, stores
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    # What is not mounted here may be mounted by what a template fills in, or a runtime adds.
    if not manifest.is_complete or not is_long(manifest):
        return
    told: set[str] = set()
    for group, place in stores(manifest):
        is_beside_mounts = place.is_relative and not has_lasting_volume(group)
        if place.mount is not None or place.path in told or carries_away(place.container):
            continue
        if place.is_remote or not (place.is_known or is_beside_mounts):
            continue
        told.add(place.path)
        where = f"{place.path}, where no volume is mounted"
        if is_beside_mounts:
            where = f"{place.path} in the image's own directory, and no volume that stays is mounted"
        perhaps = "" if place.is_sure else ", if checkpoints are written there"
        # An option may name a file.
        directory = place.path.rpartition("/")[0] if "." in place.path.rpartition("/")[2] else place.path
        mounted = directory if place.is_known and directory else "/ckpt"
        yield Hit(
            span=place.span,
            message=f"{place.label} is {where}: it is gone as soon as the container restarts, and the next attempt starts "
            f"from zero{perhaps}",
            remedy=f"mount a volume that stays: `volumeMounts: [{{name: ckpt, mountPath: {mounted}}}]`, "
            "`volumes: [{name: ckpt, persistentVolumeClaim: {claimName: ckpt}}]`",
            severity=None if place.is_sure and place.is_known else Severity.MAY_BE_LOST,
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
