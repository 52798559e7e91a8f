"""Libraries around torch: torchsnapshot, torch_checkpointing, DLRover's flash checkpoint."""

import logging
import time
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from peers.contender import Contender, flush

PATIENCE_S = 120.0


class Torchsnapshot(Contender):
    title = "torchsnapshot async_take"
    load_title = "torchsnapshot restore"
    packages = ("torch", "torchsnapshot")

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        self._pending: Any = None
        import torchsnapshot  # noqa: F401 - loaded before it is timed

    def save(self, step: int) -> None:
        from torchsnapshot import Snapshot

        if self._pending is not None:
            self._pending.wait()
        self._newest = self.directory / f"step_{step}"
        self._pending = Snapshot.async_take(str(self._newest), self.state.objects())

    def settle(self) -> Path:
        self._pending.wait()
        flush(self._newest)
        return self._newest

    def begin_load(self, state: Any) -> None:
        super().begin_load(state)
        import torchsnapshot  # noqa: F401 - loaded before it is timed

    def load(self, place: Path) -> None:
        from torchsnapshot import Snapshot

        Snapshot(str(place)).restore(self.state.objects())


class TorchCheckpointing(Contender):
    """Its default opens files for direct I/O, and then writes what is not aligned: EINVAL on ext4. Its default
    for staging is the next step's time, with a lock around the optimizer's step, and buffers made beforehand."""

    title = "torch_checkpointing, async"
    load_title = "torch_checkpointing load"
    is_overlapped = True
    packages = ("torch", "torch_checkpointing")

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        self._manager = self._made(is_async=True)
        self._manager.prewarm_staging(self.state.tree())
        self._written: Future[Any] | None = None

    def save(self, step: int) -> None:
        if self._written is not None:
            self._written.result()
        self._newest = self.directory / f"step_{step}"
        self._written = self._manager.save(str(self._newest), self.state.tree())

    def before_update(self) -> None:
        with self._manager.lock():
            pass

    def settle(self) -> Path:
        assert self._written is not None
        self._written.result()
        flush(self._newest)
        return self._newest

    def begin_load(self, state: Any) -> None:
        super().begin_load(state)
        self._manager = self._made(is_async=False)

    def load(self, place: Path) -> None:
        self.state.take(dict(self._manager.load(str(place), into=self.state.tree())))

    def end(self) -> None:
        self._manager.close()

    def _made(self, *, is_async: bool) -> Any:
        from torch_checkpointing import CheckpointManager
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        config = CheckpointManager.Config.with_async_save() if is_async else CheckpointManager.Config.with_sync_save()
        config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
        return CheckpointManager(config)


class DlroverMemory(Contender):
    """Into shared memory only; a process of its own holds it. Nothing is stored."""

    title = "DLRover flash checkpoint, memory only"
    packages = ("torch", "dlrover", "grpcio")
    is_durable = False

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        from dlrover.trainer.torch.flash_checkpoint.checkpointer import StorageType
        from dlrover.trainer.torch.flash_checkpoint.ddp import DdpCheckpointer

        self._storage_type = StorageType
        self._checkpointer = DdpCheckpointer(str(directory))

    def save(self, step: int) -> None:
        self._checkpointer.save_checkpoint(step, self.state.tree(), storage_type=self._storage_type.MEMORY)

    def settle(self) -> Path:
        return self.directory

    def forget(self, place: Path) -> None:
        if place != self.directory:
            super().forget(place)

    def end(self) -> None:
        self._checkpointer._engine._shm_handler.unlink()


class DlroverDisk(DlroverMemory):
    """Its process writes what is in memory."""

    title = "DLRover flash checkpoint, to disk"
    is_durable = True

    def save(self, step: int) -> None:
        self._step = step
        self._checkpointer.save_checkpoint(step, self.state.tree(), storage_type=self._storage_type.DISK)

    def settle(self) -> Path:
        # `wait_latest_checkpoint` looks every three seconds; the file that it looks at is renamed or written last.
        tracker = self.directory / "dlrover_latest.txt"
        until = time.monotonic() + PATIENCE_S
        while not (tracker.exists() and tracker.read_text() == str(self._step)):
            if time.monotonic() > until:
                raise TimeoutError(f"{tracker} does not come to step {self._step}")
            time.sleep(0.001)
        place = self.directory / str(self._step)
        flush(place)
        return place
