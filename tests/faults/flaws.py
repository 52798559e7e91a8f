"""Ways to break the store's promises on purpose: a campaign that does not find them proves nothing."""

from collections.abc import Callable
from pathlib import Path

from lastgood.store import durable, sweep
from lastgood.store.writer import CheckpointWriter


def bring_in(flaw: str) -> None:
    """Break the store in this process, by name; nothing for ""."""
    if flaw:
        FLAWS[flaw]()


def _without_file_flush() -> None:
    durable.NewFile.flush = lambda self: None  # type: ignore[method-assign]


def _without_directory_flush() -> None:
    durable.flush_directory = lambda path: None


def _with_manifest_first() -> None:
    """The manifest reaches its name before the parts that it vouches for reach theirs."""
    publish = durable.NewFile.publish
    held: list[durable.NewFile] = []

    def publish_later(self: durable.NewFile) -> None:
        if self.path.name != "manifest.json":
            held.append(self)
            self._has_part = False
            return
        publish(self)
        for file in held:
            publish(file)
        held.clear()

    read = durable.read_file

    def read_held(path: Path, limit_bytes: int) -> bytes:
        return read(path if path.exists() else path.with_name(path.name + ".part"), limit_bytes)

    durable.NewFile.publish = publish_later  # type: ignore[method-assign]
    durable.read_file = read_held
    # The store would see it.
    CheckpointWriter._expect = lambda self, directory, files: None  # type: ignore[method-assign]


def _with_data_deleted_first() -> None:
    delete = sweep.delete_checkpoint

    def delete_data_first(job: object, name: str) -> None:
        sweep._delete_ours(job, name)  # type: ignore[arg-type]
        delete(job, name)  # type: ignore[arg-type]

    sweep.delete_checkpoint = delete_data_first  # type: ignore[assignment]


def _with_early_retention() -> None:
    """Everything older goes before the new checkpoint is committed."""
    commit = CheckpointWriter.commit

    def commit_late(self: CheckpointWriter, *args: object, **options: object) -> object:
        for listed in sweep.list_checkpoints(self.job):
            if listed.is_committed:
                sweep.delete_checkpoint(self.job, listed.name)
        return commit(self, *args, **options)  # type: ignore[arg-type]

    CheckpointWriter.commit = commit_late  # type: ignore[method-assign,assignment]


def _with_trust_in_what_is_visible() -> None:
    """Retention relies on a checkpoint that it can read, without making sure that it is durable."""

    def problems(self: sweep.Retention, name: str) -> list[str]:
        return sweep.open_checkpoint(self._job, name).verify()

    sweep.Retention._problems = problems  # type: ignore[method-assign]


FLAWS: dict[str, Callable[[], None]] = {
    "no file flush": _without_file_flush,
    "no directory flush": _without_directory_flush,
    "manifest first": _with_manifest_first,
    "data deleted first": _with_data_deleted_first,
    "early retention": _with_early_retention,
    "trust in what is visible": _with_trust_in_what_is_visible,
}
