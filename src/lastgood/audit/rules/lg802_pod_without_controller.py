"""LG802: a Pod of its own, which nothing replaces."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind != "Pod" or manifest.is_owned or not is_long(manifest):
        return
    # Without a name it is a template for something that makes pods.
    labels = manifest.root.get("metadata", "labels")
    if not manifest.root.text("metadata", "name") or any(
        "pod-group" in key for key, _ in (labels.items() if labels else ())
    ):
        return
    yield Hit(
        span=manifest.place,
        message="a Pod of its own: when its node is drained, fails or is taken away, the Pod is deleted and nothing makes "
        "another; restartPolicy works on the same node only",
        remedy="make it the template of a Job: `apiVersion: batch/v1`, `kind: Job`, `spec: {template: {spec: ...}}`",
    )


RULE = Rule(
    code="LG802",
    name="pod-without-controller",
    severity=Severity.MAY_BE_LOST,
    what="Long work in a Pod that no Job or other controller owns.",
    why="A Pod is bound to one node for its whole life. The kubelet restarts its containers there; a drain, a preemption or "
    "the loss of the node deletes it, and only a controller makes a new one.",
    bad="""\
apiVersion: v1
kind: Pod
metadata:
  name: finetune
spec:
  restartPolicy: OnFailure
  containers:
  - name: finetune
    image: registry.example/train:7
    command: [python, finetune.py, --output_dir=/ckpt]
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
  name: finetune
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
      - name: finetune
        image: registry.example/train:7
        command: [python, finetune.py, --output_dir=/ckpt]
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        persistentVolumeClaim: {claimName: ckpt}
""",
    safe_to_ignore="Somebody watches it, or something that is not in this file creates it again.",
    source="Kubernetes documentation, Pod lifecycle: Pods are never rescheduled",
    reads=Manifest,
    check=check,
)
