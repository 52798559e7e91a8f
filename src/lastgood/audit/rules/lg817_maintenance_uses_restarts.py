"""LG817: a JobSet's restarts are used up by maintenance as by crashes."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity

_MANY = 100


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind != "JobSet" or manifest.is_owned or manifest.uses_lastgood or not is_long(manifest):
        return
    policy = manifest.root.get("spec", "failurePolicy")
    limit = policy.get("maxRestarts") if policy is not None else None
    count = policy.number("maxRestarts", 0) if policy is not None else 0
    if policy is None or limit is None or not count or count >= _MANY or not manifest.is_complete:
        return
    rules = [rule for rule in policy.elements("rules") if rule.text("action").endswith("IgnoreMaxRestarts")]
    if not rules:
        yield Hit(
            span=limit.with_key,
            message=f"maintenance, drains and preemptions use up the same {count} restarts as crashes: after {count} of them the "
            "next crash ends the JobSet",
            remedy="a rule `{action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]}`, and in the Job "
            "`podFailurePolicy: {rules: [{action: FailJob, onPodConditions: [{type: DisruptionTarget}]}]}`",
        )
        return
    for rule in rules:
        reasons = {reason.text() for reason in rule.elements("onJobFailureReasons")}
        if reasons == {"PodFailurePolicy"} and not any(job.failure_rules for job in manifest.jobs):
            yield Hit(
                span=rule.span,
                message="this rule is for Jobs that fail by their podFailurePolicy, and no Job of the set has one: it never "
                f"matches, and maintenance uses up the {count} restarts",
                remedy="in the Job, `podFailurePolicy: {rules: [{action: FailJob, onPodConditions: [{type: DisruptionTarget}]}]}`",
            )


RULE = Rule(
    code="LG817",
    name="maintenance-uses-restarts",
    severity=Severity.NOTE,
    what="A JobSet with a small `maxRestarts` and no rule that leaves out restarts after evictions.",
    why="maxRestarts is there to end a program that always crashes. Maintenance of hosts and preemption are nobody's fault and come "
    "again and again; counted together, three maintenances can leave nothing for the first real crash.",
    bad="""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pretrain
spec:
  failurePolicy:
    maxRestarts: 3
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
              command: [torchrun, --nnodes=4, train.py, --resume]
""",
    good="""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pretrain
spec:
  failurePolicy:
    maxRestarts: 3
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
    safe_to_ignore="The job is over before the next maintenance, and its nodes are not preempted.",
    source="kubernetes-sigs/jobset#976, #1129; JobSet documentation, host maintenance",
    reads=Manifest,
    check=check,
)
