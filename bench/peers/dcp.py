"""torch.distributed.checkpoint. It flushes its files itself (sync_files=True is its default), and renames the
metadata last. Staging keeps its buffers from save to save (DefaultStager), which is its fastest setting."""

import os
import tempfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from peers.contender import Contender, flush

THREADS = 2
"""Of the writer: one for each of the two cores."""


class DcpSave(Contender):
    title = "DCP save"
    load_title = "dcp.load"

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        if not dist.is_initialized():
            os.environ.setdefault("MASTER_ADDR", "localhost")
            with tempfile.TemporaryDirectory(prefix="dcp-") as place:
                dist.init_process_group("gloo", init_method=f"file://{place}/store", rank=0, world_size=1)

    def save(self, step: int) -> None:
        self._newest = self.directory / f"step_{step}"
        dcp.save(self.state.tree(), storage_writer=dcp.FileSystemWriter(self._newest, thread_count=THREADS))

    def settle(self) -> Path:
        flush(self._newest)
        return self._newest

    def load(self, place: Path) -> None:
        tree = self.state.tree()
        dcp.load(tree, storage_reader=dcp.FileSystemReader(place), no_dist=True)
        self.state.take(tree)

    def end(self) -> None:
        dist.destroy_process_group()


class DcpAsync(DcpSave):
    title = "DCP async_save, thread"
    kind = AsyncCheckpointerType.THREAD
    # Pinned memory and copies that do not block need a GPU; without one these are refused or ignored.
    options = StagingOptions(
        use_pinned_memory=False, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=False
    )

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        self._stager = DefaultStager(self.options)
        self._staged: Future[None] | None = None
        self._written: Future[Any] | None = None

    def save(self, step: int) -> None:
        if self._written is not None:
            self._written.result()
        self._newest = self.directory / f"step_{step}"
        answer = dcp.async_save(
            self.state.tree(),
            storage_writer=dcp.FileSystemWriter(self._newest, thread_count=THREADS),
            async_checkpointer_type=self.kind,
            async_stager=self._stager,
        )
        if isinstance(answer, Future):
            self._written = answer
        else:
            self._staged, self._written = answer.staging_completion, answer.upload_completion

    def before_update(self) -> None:
        if self._staged is not None:
            self._staged.result()
            self._staged = None

    def settle(self) -> Path:
        assert self._written is not None
        self._written.result()
        return super().settle()

    def end(self) -> None:
        if self._written is not None:
            self._written.result()
        self._stager.close()
        super().end()


class DcpAsyncProcess(DcpAsync):
    title = "DCP async_save, process"
    kind = AsyncCheckpointerType.PROCESS
    options = StagingOptions(
        use_pinned_memory=False, use_shared_memory=True, use_async_staging=False, use_non_blocking_copy=False
    )


class DcpAsyncStaging(DcpAsync):
    title = "DCP async_save, thread, staged beside the next step"
    is_overlapped = True
    options = StagingOptions(
        use_pinned_memory=False, use_shared_memory=False, use_async_staging=True, use_non_blocking_copy=False
    )


class DcpAsyncProcessStaging(DcpAsync):
    title = "DCP async_save, process, staged beside the next step"
    is_overlapped = True
    kind = AsyncCheckpointerType.PROCESS
    options = StagingOptions(
        use_pinned_memory=False, use_shared_memory=True, use_async_staging=True, use_non_blocking_copy=False
    )
