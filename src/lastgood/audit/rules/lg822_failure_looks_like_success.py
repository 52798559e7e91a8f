"""LG822: the container ends with the exit code of something else than the program."""

from collections.abc import Iterator

from lastgood.audit.batch.exits import lost_code
from lastgood.audit.batch.shell import Command
from lastgood.audit.kubernetes.commands import Container, Run
from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.process import is_endless, program_of
from lastgood.audit.kubernetes.purpose import is_long, main_run
from lastgood.audit.kubernetes.templates import UNKNOWN
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind == "Pod" or not is_long(manifest):
        return
    for group in manifest.groups:
        for container in group.containers:
            run = main_run(container)
            found = _loss(container, run) if run is not None else None
            if run is not None and found is not None:
                yield Hit(span=run.span, message=found[0], remedy=found[1])


def _loss(container: Container, run: Run) -> tuple[str, str] | None:
    """(message, remedy)."""
    shell, command = container.shell, run.command
    lost = lost_code(shell.script, command) if shell is not None and command is not None else None
    if shell is None or lost is None:
        return None
    if isinstance(lost.by, Command) and any(UNKNOWN in word.text for word in lost.by.words[:1]):
        return None
    # Options in front of the script do not stand in the text that was read.
    ends = shell.sets("errexit", "e") and lost.how in ("later", "exit")
    if ends or (lost.how == "pipe" and shell.sets("pipefail")):
        return None
    program = program_of(run)
    if isinstance(lost.by, Command) and is_endless(lost.by):
        message = (
            f"the container goes on for ever behind {program}: when that fails, nothing sees it, nothing retries, and "
        )
        return message + "its resources stay taken", f"leave out `{lost.by.name}`, or put `exec` in front of {program}"
    why = {
        "pipe": "the exit code of a pipe is that of its last command",
        "rescued": f"`||` takes the place of {program}'s exit code",
        "exit": "`exit 0` stands behind it",
    }.get(lost.how, "another command runs behind it, and its exit code counts")
    remedy = {
        "pipe": "`set -o pipefail` in front (bash)",
        "rescued": "leave out what stands behind `||`, or end with `exit 1`",
    }.get(lost.how, "`set -e` at the top, or `exec` in front of the program as the last command")
    message = (
        f"{why}: when {program} fails, the container may end with 0, the job counts as completed, and nothing retries"
    )
    return message, remedy


RULE = Rule(
    code="LG822",
    name="failure-looks-like-success",
    severity=Severity.MAY_BE_LOST,
    what="A container's script whose exit code is not that of its program: a pipe without pipefail, a later command, `|| true`.",
    why="Kubernetes knows of a failure by the exit code alone. A container that ends with 0 completes the Job: no retry, no "
    "restart of the set, and nobody is told.",
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
          cd /work
          python train.py --resume 2>&1 | tee train.log
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
          cd /work
          exec python train.py --resume > >(tee train.log) 2>&1
""",
    safe_to_ignore="Something else looks whether the work is done, and creates the job again if not.",
    source="bash(1), Pipelines and exit status; Kubernetes documentation, Jobs",
    reads=Manifest,
    check=check,
)
