"""LG808: pods on several nodes share a volume that one node at a time can mount."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import PodGroup
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Span

_ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    for claim in manifest.all_claims:
        if not claim.modes or not set(claim.modes) <= _ONE_NODE:
            continue
        users = [(group, place) for group in manifest.groups if (place := _use(group, claim.name)) is not None]
        if any(group.pods is None or group.is_on_one_node for group, _ in users):
            continue
        counts = [group.pods or 0 for group, _ in users]
        # Jobs of a set that wait for each other are not there at the same time.
        is_in_turn = any(entry.has("dependsOn") for entry in manifest.root.elements("spec", "replicatedJobs"))
        pods = max(counts, default=0) if is_in_turn else sum(counts)
        if pods > 1:
            yield Hit(
                span=next(place for group, place in users if not is_in_turn or group.pods == pods),
                message=f"{pods} pods mount {claim.name}, which is {claim.modes[0]}: those on a second node wait in "
                "ContainerCreating, and after a node's death so does its replacement",
                remedy=f"`accessModes: [ReadWriteMany]` for {claim.name}, or a claim for each pod",
            )


def _use(group: PodGroup, name: str) -> Span | None:
    for volume in group.volumes.values():
        claim = volume.get("persistentVolumeClaim", "claimName")
        if claim is not None and claim.known() == name:
            return claim.with_key
    for container in group.containers:
        for mount in container.mounts:
            if mount.text("name") == name and name not in group.volumes:
                return mount.span
    return None


RULE = Rule(
    code="LG808",
    name="volume-for-one-node",
    severity=Severity.MAY_BE_LOST,
    what="A ReadWriteOnce claim of the same file that several pods of one workload mount.",
    why="ReadWriteOnce is one node at a time. Pods that the scheduler puts on another node never start (Multi-Attach error), and "
    "the other ranks wait for them. After the death of a node its volume stays attached for minutes, so the replacement waits.",
    bad="""\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: ckpt
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 500Gi}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pretrain
spec:
  elasticPolicy: {rdzvBackend: c10d, maxRestarts: 10}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/train:7
            command: [torchrun, train.py, --checkpoint-dir=/ckpt]
            volumeMounts:
            - {name: ckpt, mountPath: /ckpt}
          volumes:
          - name: ckpt
            persistentVolumeClaim: {claimName: ckpt}
""",
    good="""\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: ckpt
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 500Gi}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pretrain
spec:
  elasticPolicy: {rdzvBackend: c10d, maxRestarts: 10}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/train:7
            command: [torchrun, train.py, --checkpoint-dir=/ckpt]
            volumeMounts:
            - {name: ckpt, mountPath: /ckpt}
          volumes:
          - name: ckpt
            persistentVolumeClaim: {claimName: ckpt}
""",
    safe_to_ignore="The cluster has one node, or all pods are sure to be on the same.",
    source="Kubernetes documentation, Persistent volumes: access modes",
    reads=Manifest,
    check=check,
)
