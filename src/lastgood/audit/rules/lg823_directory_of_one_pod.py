"""LG823: a directory for checkpoints that the next pod does not find, since its name is new each time."""

import re
from collections.abc import Iterator

from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.purpose import is_long
from lastgood.audit.kubernetes.storage import Place, places_of
from lastgood.audit.rule import Context, Hit, Rule, Severity

_OF_THE_POD = {"metadata.name": "the pod's name", "metadata.uid": "the pod's UID", "status.podIP": "the pod's address"}
_CHANGES = (
    (re.compile(r"\$\(\s*date\b|`\s*date\b"), "the time"),
    (re.compile(r"\$\(\s*(uuidgen|mktemp)\b|\$\{?RANDOM\b"), "a random number"),
    (re.compile(r"\$\{?HOSTNAME\b|\$\(\s*hostname\b"), "the pod's name"),
)
_STEADY_NAMES = (
    "Pod",
    "PyTorchJob",
    "TFJob",
    "MPIJob",
    "XGBoostJob",
    "PaddleJob",
    "JAXJob",
    "MXJob",
    "TrainJob",
    "RayJob",
)


def check(manifest: Manifest, context: Context) -> Iterator[Hit]:
    if not is_long(manifest):
        return
    for group in manifest.groups:
        has_steady_names = manifest.kind in _STEADY_NAMES or manifest.is_volcano
        has_steady_hosts = (
            has_steady_names or manifest.kind == "JobSet" or (group.job is not None and group.job.is_indexed)
        )
        places = places_of(group)
        if any(place.is_sure and _changing(place, False, False) is None for place in places):
            # The checkpoints have their place; this is for something else.
            places = [place for place in places if place.is_sure]
        for place in places:
            what = _changing(place, has_steady_names, has_steady_hosts)
            if what is not None:
                yield Hit(
                    span=place.span,
                    message=f"{place.label} has {what} in it: after a failure the next pod gets another directory, does not find "
                    "the checkpoints of the last one, and starts from zero",
                    remedy="a name that stays, such as the job's: `/ckpt/$(JOB_NAME)`, set once in the manifest",
                )


def _changing(place: Place, has_steady_names: bool, has_steady_hosts: bool) -> str | None:
    text = place.raw
    if place.mount is not None:
        text += " " + place.mount.text("subPathExpr")
    text += " " + place.path
    fields = place.container.fields_in(text)
    for field, what in _OF_THE_POD.items():
        if field in fields and not (field == "metadata.name" and has_steady_names):
            return what
    for pattern, what in _CHANGES:
        if pattern.search(text) and not (what == "the pod's name" and has_steady_hosts):
            return what
    return None


RULE = Rule(
    code="LG823",
    name="directory-of-one-pod",
    severity=Severity.MAY_BE_LOST,
    what="A directory for checkpoints with the pod's name, the time or a random number in it.",
    why="A pod is never started again; a new one with a new name takes its place. What the last one saved is there, under a name "
    "that nobody looks at.",
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
        command: [python, train.py, --checkpoint-dir=/ckpt/$(POD_NAME)]
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
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
      containers:
      - name: train
        image: registry.example/train:7
        command: [python, train.py, --checkpoint-dir=/ckpt/$(RUN)]
        env:
        - name: RUN
          value: pretrain-7
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt}
      volumes:
      - name: ckpt
        persistentVolumeClaim: {claimName: ckpt}
""",
    safe_to_ignore="The program looks for the newest checkpoint among all such directories.",
    source="Kubernetes documentation, Jobs: pods and their names",
    reads=Manifest,
    check=check,
)
