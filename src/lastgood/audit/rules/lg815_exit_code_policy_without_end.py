"""LG815: restartPolicy ExitCode, which also repeats what ran out of memory."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import REPLICAS, Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind not in REPLICAS or not is_long(manifest):
        return
    for group in manifest.groups:
        if group.restart_policy == "ExitCode":
            yield Hit(
                span=group.restart_place,
                message="restartPolicy ExitCode retries every code from 128 to 255, so also 137 after running out of memory, "
                "and does not count backoffLimit: a program that always runs out of memory is restarted without end",
                remedy="a limit in the program or its launcher, and an alert on pods that end with OOMKilled",
            )
            return


RULE = Rule(
    code="LG815",
    name="exit-code-policy-without-end",
    severity=Severity.WASTEFUL,
    what="`restartPolicy: ExitCode` of the training operator.",
    why="With ExitCode, 1 to 127 end the job and 128 to 255 restart the pod. SIGKILL is 137 whether it came from a drain, the end "
    "of a grace period or the lack of memory, and restarts of this kind are not counted against backoffLimit.",
    bad="""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pretrain
spec:
  elasticPolicy: {rdzvBackend: c10d, maxRestarts: 10}
  runPolicy: {backoffLimit: 5}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: ExitCode
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/train:7
            command: [torchrun, train.py, --resume]
""",
    good="""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pretrain
spec:
  elasticPolicy: {rdzvBackend: c10d, maxRestarts: 10}
  runPolicy: {backoffLimit: 5}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/train:7
            command: [torchrun, train.py, --resume]
""",
    safe_to_ignore="The program ends with a code below 128 for what must not be repeated, and its use of memory does not grow.",
    source="kubeflow/common#167; kubeflow/training-operator#2045",
    reads=Manifest,
    check=check,
)
