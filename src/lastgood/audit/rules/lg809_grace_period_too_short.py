"""LG809: the pod is killed before it can have written a checkpoint."""

import re
from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import DEFAULT_GRACE_S, PodGroup
from lastgood.audit.kubernetes.purpose import is_long, main_run
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Span
from lastgood.core.units import duration

_SLEEP = re.compile(r"\bsleep[\"', ]+(\d+)")
_SAVES = re.compile(
    r"sig(term|usr)|preempt(ion|ible)?[-_](hand|sav|check)|save[-_]on[-_](exit|sig|term|preempt)|graceful", re.I
)
_HARDLY_ANY_S = 5


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if not is_long(manifest):
        return
    for group in manifest.groups:
        grace_s = group.grace_s
        place = group.grace_place
        if grace_s is None or (place is None and not manifest.is_complete) or main_run_of(group) is None:
            continue
        left_s = grace_s - hook_s(group)
        span = place if place is not None else _place_of(group)
        what = "terminationGracePeriodSeconds" if place is not None else "the default grace period"
        if left_s < grace_s:
            what += f" less the preStop hook's sleep of {hook_s(group)} s"
        wanted_s = max(2 * (context.write_s or 60), 60) + hook_s(group)
        remedy = f"`terminationGracePeriodSeconds: {wanted_s:.0f}`"
        if context.write_s is not None and left_s < context.write_s:
            message = (
                f"{what} is {max(left_s, 0)} s, and a checkpoint takes {duration(context.write_s)} to write: at a drain or "
                "preemption the pod is killed in the middle of it"
            )
            yield Hit(span=span, message=message, remedy=remedy)
        elif context.write_s is None and left_s < _HARDLY_ANY_S and (place is not None or left_s < grace_s):
            message = (
                f"{what} is {max(left_s, 0)} s: at a drain or preemption the pod is killed before it can write anything"
            )
            yield Hit(span=span, message=message, remedy=remedy)
        elif context.write_s is None and place is None and grace_s == DEFAULT_GRACE_S and _saves_when_asked(group):
            message = (
                f"SIGTERM is handled or passed on here, and the default grace period gives it {DEFAULT_GRACE_S} s: a checkpoint "
                "that takes longer to write is cut off"
            )
            remedy = "`terminationGracePeriodSeconds` of twice the time that a checkpoint takes"
            yield Hit(span=span, message=message, remedy=remedy, severity=Severity.NOTE)


def main_run_of(group: PodGroup) -> object:
    return next((run for container in group.containers if (run := main_run(container)) is not None), None)


def hook_s(group: PodGroup) -> int:
    """Seconds that the longest preStop hook sleeps: they are part of the grace period."""
    longest = 0
    for container in group.containers:
        hook = container.value.get("lifecycle", "preStop")
        if hook is not None:
            slept = hook.get("sleep")
            text = " ".join(value.text() for value in hook.elements("exec", "command"))
            found = [int(match) for match in _SLEEP.findall(text)]
            longest = max(longest, *found, (slept.number("seconds", 0) or 0) if slept is not None else 0, 0)
    return longest


def _saves_when_asked(group: PodGroup) -> bool:
    for container in group.containers:
        words = " ".join(word.text for word in container.words)
        traps = container.shell.script.traps if container.shell is not None else []
        if any("TERM" in trap.signals and not trap.is_ignore for trap in traps):
            return True
        if _SAVES.search(words) or any(_SAVES.search(name) for name in container.environment):
            return True
    return False


def _place_of(group: PodGroup) -> Span:
    return group.spec.with_key


RULE = Rule(
    code="LG809",
    name="grace-period-too-short",
    severity=Severity.MAY_BE_LOST,
    what="A termination grace period, less what a preStop hook sleeps, that is shorter than writing a checkpoint (`--write`).",
    why="A pod that is drained, preempted or deleted gets SIGTERM, and SIGKILL when its grace period is over: 30 s if nothing "
    "is said. What is half written then is no checkpoint, and the work since the last one is lost.",
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
        persistentVolumeClaim: {claimName: ckpt}
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
      terminationGracePeriodSeconds: 300
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --checkpoint-dir=/ckpt]
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        persistentVolumeClaim: {claimName: ckpt}
""",
    safe_to_ignore="The program writes nothing when it is asked to stop, and its last regular checkpoint is recent enough.",
    source="Kubernetes documentation, Pod lifecycle: termination of Pods",
    reads=Manifest,
    check=check,
    write_s=90,
)
