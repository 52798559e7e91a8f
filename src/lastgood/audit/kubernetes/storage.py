"""Where a container writes its checkpoints, as far as its options, variables and mounts tell."""

import re
from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from lastgood.audit.kubernetes.commands import Container, Run
from lastgood.audit.kubernetes.manifest import Manifest
from lastgood.audit.kubernetes.pods import PodGroup
from lastgood.audit.kubernetes.purpose import is_beside, main_run
from lastgood.audit.kubernetes.templates import UNKNOWN
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.source import Span

_SURE = re.compile(
    r"(checkpoints?|ckpts?|snapshots?)_?(save_?)?(out(put)?_?)?(dir|directory|folder|root|dirpath)"
    r"|save_(dir|directory|folder|path|checkpoint_?(dir|path)|ckpt_?(dir|path))|(checkpoint|ckpt)_save_path|save"
)
_MAYBE = re.compile(
    r"(base_)?out(put)?_?(dir|directory|folder|path)|results?_?(dir|directory|folder|path)|model_dir|job_dir|run_dir|exp_dir"
    r"|experiment_dir|default_root_dir|(checkpoints?|ckpt|snapshot)_(path|file)|work_dir"
)
_INPUT = re.compile(r"load|init|pretrain|base_model|tokenizer|source|convert|from")
_SURE_MOUNT = re.compile(r"(?<![a-z])(checkpoints?|ckpts?|snapshots?)(?![a-z])", re.IGNORECASE)
_MAYBE_MOUNT = re.compile(r"(?<![a-z])(outputs?|results?)(?![a-z])", re.IGNORECASE)
_OPTION = re.compile(r"(?:--?|\+{1,2})?([A-Za-z][\w.-]*)(?:=(.*))?\Z", re.DOTALL)
_MOVERS = frozenset(
    "aws s5cmd s3cmd gsutil rclone rsync azcopy mc kubectl gcloud hdfs hf huggingface-cli globus".split()
)


_SHARED = re.compile(
    r"(?<![a-z])(nfs|lustre|gpfs|fsx|efs|weka|beegfs|ceph(fs)?|gluster|juicefs|shared?|pfs|hdfs|gcs|s3|home|net|filestore"
    r"|vast|mmfs|spectrum|cluster)(?![a-z])|^/mnt/?$",
    re.IGNORECASE,
)
_PASSING = ("emptyDir", "configMap", "secret", "downwardAPI", "projected")


class Place(msgspec.Struct, frozen=True):
    """A directory for checkpoints."""

    raw: str
    """As it is written."""
    path: str
    """With the manifest's own variables put in."""
    label: str
    """"--output_dir", "CKPT_DIR" or "the mount ckpt"."""
    span: Span
    is_sure: bool
    """No doubt that it is for checkpoints: a plain output directory is one, perhaps."""
    container: Container
    mount: Value | None
    """The mount that holds it."""
    run: Run | None = None

    @property
    def is_remote(self) -> bool:
        return "://" in self.path

    @property
    def is_relative(self) -> bool:
        """To a directory that only the image knows."""
        return bool(re.match(r"(\./)?[A-Za-z_][\w./-]*\Z", self.path))

    @property
    def is_known(self) -> bool:
        """An absolute path without anything in front that is put in later."""
        return self.path.startswith("/") and UNKNOWN not in self.path.split("/")[1]


def places_of(group: PodGroup) -> list[Place]:
    """What options and variables name; what mounts are called only where those name nothing."""
    found: list[Place] = []
    for container in group.containers:
        named = [*_options(container), *_variables(container)]
        found += named or _mounts(container)
    return found


def stores(manifest: Manifest) -> Iterator[tuple[PodGroup, Place]]:
    """Places with the pods that write there. mpirun starts its program in the workers' pods, not in its own."""
    workers = next((group for group in manifest.groups if group.role == "Worker" and group.containers), None)
    for group in manifest.groups:
        is_elsewhere = manifest.kind == "MPIJob" and group.role == "Launcher" and workers is not None
        for place in places_of(group):
            if is_elsewhere and workers is not None:
                mount = workers.containers[0].mount_of(place.path)
                yield workers, msgspec.structs.replace(place, mount=mount)
            else:
                yield group, place


def may_be_shared(host_path: str) -> bool:
    """True for a directory of a node that looks like a file system which all nodes mount."""
    return bool(_SHARED.search(host_path))


def has_lasting_volume(group: PodGroup) -> bool:
    """True if any container mounts what may outlive the pod on other nodes, too."""
    for container in group.containers:
        for mount in container.mounts:
            store = group.store_of(mount)
            host = store[1].text("hostPath", "path") if store is not None else ""
            is_local = host != "" and not may_be_shared(host)
            if store is None or not (store[0] in _PASSING or is_local):
                return True
    return False


def is_left_alone(place: Place) -> bool:
    """True if the place tells nothing for certain, or does not matter because the files are kept elsewhere."""
    return place.is_remote or not place.is_known or carries_away(place.container)


def carries_away(container: Container) -> bool:
    """True if its script copies files to somewhere else while the program runs; what comes behind it only copies when
    it has ended well."""
    run = main_run(container)
    if container.shell is None or run is None or run.command is None:
        return False
    end = run.command.end
    for command in container.shell.script.commands:
        around = command.around
        is_afterwards = command.begin >= end and not (around.is_background or around.loops or around.within == "trap")
        if command.name in _MOVERS and not is_afterwards:
            return True
    return False


def _options(container: Container) -> Iterator[Place]:
    for run in container.runs:
        if is_beside(run):
            continue
        words = run.launch.words[1:]
        for word, following in zip_longest(words, words[1:]):
            match = _OPTION.match(word.text)
            if match is None:
                continue
            has_value = match[2] is not None
            if not has_value and (not word.text.startswith("-") or following is None or following.text[:1] == "-"):
                continue
            is_sure = _is_for_checkpoints(match[1])
            if is_sure is not None:
                raw = match[2] if has_value or following is None else following.text
                label = word.text.partition("=")[0]
                yield _place(container, raw, label, run.place(word), is_sure, run)


def _variables(container: Container) -> Iterator[Place]:
    for name, entry in container.environment.items():
        is_sure = _is_for_checkpoints(name)
        if is_sure is not None and entry.text("value"):
            value = entry.get("value")
            span = value.with_key if value is not None else entry.span
            yield _place(container, entry.text("value"), name, span, is_sure, None)


def _mounts(container: Container) -> Iterator[Place]:
    for mount in container.mounts:
        name, path = mount.text("name"), mount.text("mountPath")
        if mount.is_true("readOnly"):
            continue
        is_sure = bool(_SURE_MOUNT.search(name) or _SURE_MOUNT.search(path))
        if is_sure or _MAYBE_MOUNT.search(name) or _MAYBE_MOUNT.search(path):
            place = mount.get("mountPath") or mount
            yield Place(path, path, f"the mount {name}", place.with_key, is_sure, container, mount)


def _is_for_checkpoints(name: str) -> bool | None:
    """None: it is for something else."""
    plain = name.lower().replace("-", "_").replace(".", "_")
    last = name.lower().replace("-", "_").rpartition(".")[2]
    if _INPUT.search(plain):
        return None
    if _SURE.fullmatch(last) or re.search(r"(checkpoint|ckpt)_(dir|directory|folder)\Z", plain):
        return True
    return False if _MAYBE.fullmatch(last) else None


def _place(container: Container, raw: str, label: str, span: Span, is_sure: bool, run: Run | None) -> Place:
    path = container.expand(raw.strip("\"'"))
    base = container.value.text("workingDir")
    if base.startswith("/") and re.match(r"\.?[\w/]|\.\Z", path) and not path.startswith("/") and "://" not in path:
        path = f"{base.rstrip('/')}/{path.removeprefix('./')}"
    return Place(raw, path, label, span, is_sure, container, container.mount_of(path), run)
