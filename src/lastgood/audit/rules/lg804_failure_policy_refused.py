"""LG804: a podFailurePolicy with a restartPolicy that it does not go with."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    for group in manifest.groups:
        job = group.job
        policy = job.spec.get("podFailurePolicy") if job is not None else None
        is_said = group.says_restart_policy
        if policy is None or group.restart_policy in ("", "Never") or not (is_said or manifest.is_complete):
            continue
        what = f"restartPolicy {group.restart_policy}"
        if not is_said:
            default = "OnFailure, which JobSet puts in" if manifest.kind == "JobSet" else "Always"
            what = f"no restartPolicy (so {default})"
        yield Hit(
            span=policy.with_key if not is_said else group.restart_place,
            message=f"{what} beside a podFailurePolicy: the API server refuses the Job, so no pod is ever made",
            remedy="`restartPolicy: Never` in the pod template",
        )


RULE = Rule(
    code="LG804",
    name="failure-policy-refused",
    severity=Severity.MAY_BE_LOST,
    what="A podFailurePolicy in a Job whose pods do not have `restartPolicy: Never`.",
    why="A podFailurePolicy looks at pods that failed; with OnFailure the kubelet restarts containers and pods do not fail. The "
    "API server refuses the combination. In a JobSet the set itself is accepted, and then none of its Jobs can be made; it "
    "fills in OnFailure where the template says nothing.",
    bad="""\
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
            containers:
            - name: train
              image: registry.example/train:7
              command: [torchrun, --nnodes=4, train.py]
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
              command: [torchrun, --nnodes=4, train.py]
""",
    safe_to_ignore="Never.",
    source="kubernetes/kubernetes, pkg/apis/batch/validation; kubernetes-sigs/jobset, pkg/webhooks",
    reads=Manifest,
    check=check,
)
