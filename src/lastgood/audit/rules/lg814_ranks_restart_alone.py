"""LG814: pods of ranks that need each other are restarted one by one."""

import re
from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import REPLICAS, Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity

_MEETS_AGAIN = re.compile(r"--max[-_]restarts[= ][1-9$]")


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.is_volcano or manifest.is_owned or manifest.uses_lastgood:
        return
    if not manifest.is_coupled or (manifest.pods_at_once or 0) < 2 or not is_long(manifest) or _meets_again(manifest):
        return
    if manifest.kind == "JobSet":
        yield from _set(manifest)
    elif manifest.kind in REPLICAS and manifest.kind != "MPIJob":
        yield from _operator(manifest)
    elif manifest.kind == "Job":
        yield from _job(manifest)


def _meets_again(manifest: Manifest) -> bool:
    """Its launcher lets ranks that come back join the others."""
    if manifest.root.get("spec", "elasticPolicy") is not None:
        return True
    return any(
        _MEETS_AGAIN.search(" ".join(word.text for word in wrapper.words))
        for group in manifest.groups
        for container in group.containers
        for run in container.runs
        for wrapper in run.launch.wrappers
    )


def _operator(manifest: Manifest) -> Iterator[Hit]:
    for group in manifest.groups:
        if group.restart_policy in ("OnFailure", "Always"):
            what = f"restartPolicy {group.restart_policy}"
            remedy = "a TrainJob or JobSet, which restarts all pods together"
            if manifest.kind == "PyTorchJob":
                remedy = "`elasticPolicy: {rdzvBackend: c10d, maxRestarts: 10}` with torchrun, or a TrainJob"
            yield Hit(span=group.restart_place, message=_message(what, "container"), remedy=remedy)
            return


def _set(manifest: Manifest) -> Iterator[Hit]:
    for group in manifest.groups:
        job = group.job
        if job is None or (group.pods or 0) < 2 or not job.backoff_limit or job.is_without_end:
            continue
        limit = job.spec.get("backoffLimit")
        if limit is None and not manifest.is_complete:
            continue
        yield Hit(
            span=limit.with_key if limit is not None else job.spec.with_key,
            message=_message(f"backoffLimit {job.backoff_limit} in a Job of the set", "pod"),
            remedy="`backoffLimit: 0` and `restartPolicy: Never` in the Job, `failurePolicy: {maxRestarts: 10}` in the JobSet, "
            "which restarts all of them together",
        )


def _job(manifest: Manifest) -> Iterator[Hit]:
    for group in manifest.groups:
        job = group.job
        if job is None or not job.backoff_limit or job.is_without_end:
            continue
        limit = job.spec.get("backoffLimit")
        yield Hit(
            span=limit.with_key if limit is not None else manifest.place,
            message=_message(f"a Job of {group.pods} pods with retries", "pod"),
            remedy="a JobSet with `failurePolicy: {maxRestarts: 10}` and `backoffLimit: 0` in its Job, which restarts all together",
        )


def _message(what: str, unit: str) -> str:
    return (
        f"{what}: each {unit} that fails is restarted by itself, with a back-off of its own, while the other ranks hang or fail "
        "at their next collective, so the ranks may not meet again"
    )


RULE = Rule(
    code="LG814",
    name="ranks-restart-alone",
    severity=Severity.WASTEFUL,
    what="Several pods that compute together, of which each is restarted for itself.",
    why="If one rank dies, the others wait in a collective or fail too, each at its own time. Each pod's back-off grows by "
    "itself, from 10 s to 5 or 6 min, so that one waits for a rendezvous that another has just given up. What helps is to end "
    "all and to start all.",
    bad="""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pretrain
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/train:7
            command: [python, train.py, --resume]
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example/train:7
            command: [python, train.py, --resume]
""",
    good="""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pretrain
spec:
  failurePolicy:
    maxRestarts: 10
    rules:
    - action: RestartJobSetAndIgnoreMaxRestarts
      onJobFailureReasons: [PodFailurePolicy]
  replicatedJobs:
  - name: workers
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        podFailurePolicy:
          rules:
          - action: FailJob
            onPodConditions:
            - type: DisruptionTarget
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: train
              image: registry.example/train:7
              command: [torchrun, --nnodes=4, train.py, --resume]
""",
    safe_to_ignore="The launcher inside of the pods lets a rank join again, and waits longer for it than the longest back-off.",
    source="kubeflow/trainer#2000; JobSet documentation, failure policy",
    reads=Manifest,
    check=check,
)
