"""LG821: two layers that retry, each unaware of the other."""

import re
from collections.abc import Iterator

from lastgood.audit.kubernetes.commands import Run
from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import PodGroup
from lastgood.audit.kubernetes.purpose import is_long, main_run
from lastgood.audit.rule import Context, Hit, Rule, Severity

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_RETRIES = re.compile(r"\d+")


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.is_owned or manifest.uses_lastgood or not is_long(manifest):
        return
    for group in manifest.groups:
        for container in group.containers:
            run = main_run(container)
            outer = _outer(manifest, group)
            if run is None or outer is None:
                continue
            inner = _inner(run)
            if inner:
                what, count = outer
                yield Hit(
                    span=run.span,
                    message=f"torchrun restarts {inner} times and {what} {count} times: together {(inner + 1) * (count + 1)} attempts, "
                    "so a program error is repeated that often before the job fails",
                    remedy="`--max-restarts=0`, and leave restarts to Kubernetes; or few retries there",
                )


def _inner(run: Run) -> int:
    """Restarts of torchrun and its like."""
    for wrapper in run.launch.wrappers:
        if wrapper.name in _LAUNCHERS:
            value = wrapper.option("--max-restarts", "--max_restarts") or ""
            if _RETRIES.fullmatch(value):
                return int(value)
    return 0


def _outer(manifest: Manifest, group: PodGroup) -> tuple[str, int] | None:
    if manifest.kind == "JobSet":
        policy = manifest.root.get("spec", "failurePolicy")
        count = policy.number("maxRestarts", 0) if policy is not None else 0
        return ("the JobSet", count) if count else None
    if manifest.kind in ("Job", "CronJob") and group.job is not None:
        limit = group.job.backoff_limit
        if limit and (group.job.spec.has("backoffLimit") or manifest.is_complete):
            return "the Job", limit
    return None


RULE = Rule(
    code="LG821",
    name="retries-multiply",
    severity=Severity.NOTE,
    what="A launcher with restarts of its own (`torchrun --max-restarts`) in a Job or JobSet with retries.",
    why="Each layer counts for itself, so the attempts multiply: what fails always is tried many times, with all its nodes. And the "
    "inner layer restarts on the same node, also if that node is the reason.",
    bad="""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pretrain
spec:
  failurePolicy:
    maxRestarts: 10
  replicatedJobs:
  - name: workers
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: train
              image: registry.example/train:7
              command: [torchrun, --nnodes=4, --max-restarts=5, train.py, --resume]
""",
    good="""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pretrain
spec:
  failurePolicy:
    maxRestarts: 10
  replicatedJobs:
  - name: workers
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: train
              image: registry.example/train:7
              command: [torchrun, --nnodes=4, --max-restarts=0, train.py, --resume]
""",
    safe_to_ignore="The inner restarts are meant for what passes by itself, and the outer ones are few.",
    source="torchrun documentation; Kubernetes documentation, Jobs",
    reads=Manifest,
    check=check,
)
