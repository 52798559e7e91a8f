"""LG816: a JobSet that ends with its first failed pod."""

from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if manifest.kind != "JobSet" or manifest.is_owned or not is_long(manifest):
        return
    spec = manifest.root.get("spec")
    policy = spec.get("failurePolicy") if spec is not None else None
    limit = policy.number("maxRestarts", 0) if policy is not None else 0
    if limit != 0 or (policy is not None and policy.elements("rules")):
        return
    if policy is None and not manifest.is_complete:
        return
    for job in manifest.jobs:
        own = job.spec.get("backoffLimit")
        if own is None or job.backoff_limit != 0 or job.spares_disruptions:
            continue
        what = "no failurePolicy" if policy is None else "a failurePolicy without restarts"
        yield Hit(
            span=policy.with_key if policy is not None else own.with_key,
            message=f"{what}, and backoffLimit 0 in {job.role or 'its Job'}: the first pod that fails, also by a drain or a dead "
            "node, fails the whole JobSet for good",
            remedy="`failurePolicy: {maxRestarts: 10}` in the JobSet",
        )
        return


RULE = Rule(
    code="LG816",
    name="set-fails-with-first-job",
    severity=Severity.MAY_BE_LOST,
    what="A JobSet without restarts (`failurePolicy`), whose Jobs have no retries of their own.",
    why="Without a failurePolicy the first failed Job fails the JobSet; with `backoffLimit: 0` its first failed pod fails a Job.",
    bad="""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pretrain
spec:
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
              command: [torchrun, --nnodes=4, train.py, --resume]
""",
    safe_to_ignore="Something else creates the JobSet again.",
    source="JobSet documentation, failure policy; KEP-262 of JobSet",
    reads=Manifest,
    check=check,
)
