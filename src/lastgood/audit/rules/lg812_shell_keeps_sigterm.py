"""LG812: a shell that stays in front of the program, so that SIGTERM never reaches it."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.process import Ending, ending_of
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity

_AT_THE_END = "`exec` in front of it, as the last command"


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if not is_long(manifest):
        return
    for group in manifest.groups:
        for container in group.containers:
            ending = ending_of(container)
            if ending is None or ending.how == "last" or group.spec.is_true("shareProcessNamespace"):
                continue
            why, remedy = _why(ending)
            yield Hit(
                span=ending.run.span,
                message=f"{why}, so the shell stays process 1, which ignores SIGTERM: at a drain or preemption {ending.program} "
                "does not get it, saves nothing, and is killed when the grace period ends",
                remedy=remedy,
            )


def _why(ending: Ending) -> tuple[str, str]:
    if ending.how == "pipe":
        return f"{ending.program} is in a pipe", "in bash, `exec COMMAND > >(tee LOG) 2>&1` as the last command"
    if ending.how == "background":
        return (
            f"{ending.program} runs in the background",
            "`COMMAND & pid=$!; trap 'kill -TERM $pid; wait $pid' TERM; wait $pid`",
        )
    if ending.how == "loop":
        return f"{ending.program} runs in a loop", f"let the Job restart it, with {_AT_THE_END}"
    behind = ending.behind.words[0].text if ending.behind is not None and ending.behind.words else "another command"
    return (
        f"`{behind}` comes behind {ending.program}",
        f"{_AT_THE_END}; or an init such as `dumb-init` in front of the shell",
    )


RULE = Rule(
    code="LG812",
    name="shell-keeps-sigterm",
    severity=Severity.MAY_BE_LOST,
    what="A container whose shell does something after the program, runs it in a pipe, a loop or the background, without a trap.",
    why="Only process 1 of a container gets SIGTERM when the pod is stopped, and process 1 ignores signals that it has no handler "
    "for. A shell that still has something to do stays process 1. The program is not told, and SIGKILL comes when the grace "
    "period is over.",
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
        command: [bash, -c]
        args:
        - |
          set -e
          cd /work
          python train.py --resume
          echo finished
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
        command: [bash, -c]
        args:
        - |
          set -e
          cd /work
          exec python train.py --resume
""",
    safe_to_ignore="The program does nothing on SIGTERM, and its last regular checkpoint is recent enough.",
    source="signal(7), pid_namespaces(7); petuum/adaptdl#105; tried with bash 5.2 and dash 0.5.12",
    reads=Manifest,
    check=check,
)
