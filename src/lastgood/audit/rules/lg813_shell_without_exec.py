"""LG813: the program is the last command of a shell, but not with exec."""

import re
from collections.abc import Iterator

from lastgood.audit.kubernetes.commands import SHELLS
from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.process import ending_of
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity

_NEW_BASH = re.compile(
    r"ubuntu-?:?2[2-9]\.?04|jammy|noble|bookworm|trixie|nvcr\.io/nvidia/(pytorch|tensorflow|jax|nemo):2[3-9]"
)
"""Images whose bash is 5.1 or newer."""


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if not is_long(manifest):
        return
    for group in manifest.groups:
        for container in group.containers:
            ending = ending_of(container)
            if (
                ending is None
                or ending.how != "last"
                or ending.is_replaced
                or group.spec.is_true("shareProcessNamespace")
            ):
                continue
            if ending.run.launch.program in SHELLS:
                # Whether that script passes a signal on is not known; exec alone would not.
                continue
            shell = ending.shell.shell
            if shell == "bash" and _NEW_BASH.search(container.value.text("image")):
                continue
            which = "bash before 5.1 keeps" if shell == "bash" else f"{shell} (dash, for example) may keep"
            yield Hit(
                span=ending.run.span,
                message=f"{ending.program} is started without exec: {which} the shell as process 1, which ignores SIGTERM, and "
                f"then {ending.program} is not told before it is killed",
                remedy="write `exec` in front of it",
            )


RULE = Rule(
    code="LG813",
    name="shell-without-exec",
    severity=Severity.NOTE,
    what="A container's program that is the last command of `sh -c` or `bash -c`, without `exec`.",
    why="Whether the shell puts the last command in its own place depends on the shell: bash 5.1 and newer do, older ones only "
    "for a script of one command, dash does not. With `exec` it does not depend on anything.",
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
        command: [sh, -c, "cd /work && python train.py --resume"]
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
        command: [sh, -c, "cd /work && exec python train.py --resume"]
""",
    safe_to_ignore="The image has a bash of 5.1 or newer, or the program does nothing on SIGTERM.",
    source="tried with bash 5.2 and dash 0.5.12; petuum/adaptdl#105",
    reads=Manifest,
    check=check,
)
