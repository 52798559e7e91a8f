"""Copies of tensors on CUDA devices into the host's memory, beside the program's own work on these devices.

Each device has a stream of its own for them. It begins when the program's current stream has done what it was asked
before, and is waited for by streams, not by the program. Without a GPU nothing here runs.
"""

import ctypes
import threading
from contextlib import suppress

import torch

from lastgood.core.tree import ArrayLeaf

_PORTABLE = 1
"""cudaHostRegisterPortable: pinned for every device of the process."""

_Target = tuple[ArrayLeaf, int]


class DeviceCopies:
    """See `lastgood.runtime.ports.DeviceCopies`."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        # Another thread begins on the first device, where this process may have no business.
        self._home = torch.cuda.current_device()

    def takes(self, leaf: ArrayLeaf) -> bool:
        return bool(leaf.data.is_cuda)

    def pin(self, address: int, size: int) -> str:
        with torch.cuda.device(self._home):
            code = int(torch.cuda.cudart().cudaHostRegister(address, size, _PORTABLE))
            if code:
                _forget_error()
        return f"cudaHostRegister gave error {code}" if code else ""

    def unpin(self, address: int) -> None:
        with torch.cuda.device(self._home):
            if int(torch.cuda.cudart().cudaHostUnregister(address)):
                _forget_error()

    def start(self, now: list[_Target], later: list[_Target]) -> "DeviceCopy":
        copy = DeviceCopy([leaf for leaf, _ in (*now, *later)])
        for device in sorted({leaf.data.device for leaf, _ in (*now, *later)}, key=str):
            if device not in self._streams:
                self._streams[device] = torch.cuda.Stream(device)
            stream, current = self._streams[device], torch.cuda.current_stream(device)
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                _enqueue([target for target in now if target[0].data.device == device])
                current.wait_stream(stream)
                _enqueue([target for target in later if target[0].data.device == device])
                # Whoever waits for it on the host sleeps.
                done = torch.cuda.Event(blocking=True)
                done.record(stream)
            copy.add(device, done)
        return copy


class DeviceCopy:
    """See `lastgood.runtime.ports.DeviceCopy`. Keeps what is copied from being given back."""

    def __init__(self, leaves: list[ArrayLeaf]) -> None:
        self._leaves = leaves
        self._events: list[tuple[torch.device, torch.cuda.Event]] = []

    def add(self, device: torch.device, done: "torch.cuda.Event") -> None:
        self._events.append((device, done))

    def hold_changes(self) -> None:
        for device, done in self._events:
            torch.cuda.current_stream(device).wait_event(done)

    def wait(self) -> None:
        for device, done in self._events:
            with torch.cuda.device(device):
                done.synchronize()
        self._leaves = []


def _enqueue(targets: list[_Target]) -> None:
    """Have the current stream copy each tensor. (What has to be brought into order first stays on the device.)"""
    for leaf, address in targets:
        source = leaf.data.detach().contiguous().reshape(-1).view(torch.uint8)
        memory = (ctypes.c_ubyte * source.numel()).from_address(address)
        torch.frombuffer(memory, dtype=torch.uint8).copy_(source, non_blocking=True)


def _forget_error() -> None:
    """CUDA keeps the error of a failed call for the next one that looks: let that be one of ours."""
    with suppress(RuntimeError):
        torch.ones(1, device="cuda")


_lock = threading.Lock()
_copies: DeviceCopies | None = None


def device_copies() -> DeviceCopies | None:
    """Those of this process; None unless it uses CUDA."""
    global _copies
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    with _lock:
        if _copies is None:
            _copies = DeviceCopies()
        return _copies
