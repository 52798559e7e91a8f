"""Copies from devices, with stand-ins for CUDA: in which order streams are asked, and what a save makes of it.

What a GPU does with it is tested in test_cuda.py, where there is one.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.core.tree import ArrayLeaf
from lastgood.runtime import overlap
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint

torch = pytest.importorskip("torch")

from lastgood.frameworks import torch_adapter, torch_copies  # noqa: E402 - needs torch

LIMIT_S = 180.0


# The order in which streams are asked ---------------------------------------------------------------------------------


class FakeStream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def wait_stream(self, other: "FakeStream") -> None:
        self.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: "FakeEvent") -> None:
        self.log.append(f"{self.name} waits for the event")


class FakeEvent:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def record(self, stream: FakeStream) -> None:
        self.log.append(f"event on {stream.name}")

    def synchronize(self) -> None:
        self.log.append("host waits for the event")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What CUDA was asked, in order. Tensors of the host stand for those of a device."""
    said: list[str] = []
    current = FakeStream("current", said)

    @contextmanager
    def on(stream: FakeStream) -> Iterator[None]:
        said.append(f"on {stream.name}")
        yield
        said.append(f"off {stream.name}")

    @contextmanager
    def device(which: Any) -> Iterator[None]:
        yield

    class Runtime:
        code = 0

        def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
            said.append(f"register {size} with flags {flags}")
            return self.code

        def cudaHostUnregister(self, address: int) -> int:
            said.append("unregister")
            return 0

    runtime = Runtime()
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: FakeStream("side", said))
    monkeypatch.setattr(torch.cuda, "Event", lambda blocking: FakeEvent(said))
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    enqueue = torch_copies._enqueue

    def noted(targets: list[Any]) -> None:
        said.append(f"copies {len(targets)}")
        enqueue(targets)

    monkeypatch.setattr(torch_copies, "_enqueue", noted)
    return said


def leaf_of(tensor: Any) -> ArrayLeaf:
    leaf = torch_adapter.FRAMEWORK.to_leaf(tensor)
    assert leaf is not None
    return leaf


def test_a_device_changes_nothing_before_what_is_copied_at_once_and_steps_wait_for_the_rest(log: list[str]) -> None:
    tensors = [torch.arange(6.0), torch.arange(8).reshape(2, 4).T, torch.tensor([True, False])]
    memory = [(ctypes.c_ubyte * tensor.nbytes)() for tensor in tensors]
    targets = [(leaf_of(t), ctypes.addressof(m)) for t, m in zip(tensors, memory, strict=True)]
    copy = torch_copies.DeviceCopies().start(targets[:1], targets[1:])
    assert log == [
        "side waits for current",
        "on side",
        "copies 1",
        "current waits for side",
        "copies 2",
        "event on side",
        "off side",
    ]
    for tensor, written in zip(tensors, memory, strict=True):
        assert bytes(written) == tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    log.clear()
    copy.hold_changes()
    copy.wait()
    assert log == ["current waits for the event", "host waits for the event"]


def test_memory_is_registered_for_all_devices_and_given_back(log: list[str]) -> None:
    copies = torch_copies.DeviceCopies()
    assert copies.pin(4096, 8192) == ""
    copies.unpin(4096)
    assert log == ["register 8192 with flags 1", "unregister"]


def test_a_failed_registration_says_why_and_leaves_no_error_behind(
    log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = torch_copies.DeviceCopies()
    torch.cuda.cudart().code = 2
    forgotten = []
    monkeypatch.setattr(torch_copies, "_forget_error", lambda: forgotten.append(True))
    assert "error 2" in copies.pin(4096, 8192)
    assert forgotten == [True]


def test_without_a_gpu_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch_adapter.FRAMEWORK.device_copies() is None


# What a save makes of it ----------------------------------------------------------------------------------------------


class Device:
    """Stands for a device: what it is asked to copy it copies when it is waited for, or when the next step is held."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.pinned: set[int] = set()
        self.pin_problem = ""
        self.copy_problem = ""
        """Of the copies that are begun now."""
        self.is_slow = False
        """What it is asked to copy now is not done before a step is held for it."""
        self.may_end = threading.Event()
        self.may_end.set()

    def takes(self, leaf: ArrayLeaf) -> bool:
        return True

    def pin(self, address: int, size: int) -> str:
        if not self.pin_problem:
            self.pinned.add(address)
        return self.pin_problem

    def unpin(self, address: int) -> None:
        # It must still be mapped.
        ctypes.string_at(address, 1)
        self.pinned.remove(address)

    def start(self, now: list[tuple[ArrayLeaf, int]], later: list[tuple[ArrayLeaf, int]]) -> "OnDevice":
        self.said.append(f"now {len(now)}, later {len(later)}")
        if self.is_slow:
            self.may_end.clear()
        _write(now)
        return OnDevice(self, later)


class OnDevice:
    def __init__(self, device: Device, later: list[tuple[ArrayLeaf, int]]) -> None:
        self._device = device
        self._later = later
        self._problem = device.copy_problem
        self._lock = threading.Lock()

    def _end(self) -> None:
        with self._lock:
            later, self._later = self._later, []
            _write(later)

    def hold_changes(self) -> None:
        self._device.said.append("step held")
        self._end()
        self._device.may_end.set()

    def wait(self) -> None:
        assert self._device.may_end.wait(LIMIT_S)
        if self._problem:
            raise RuntimeError(self._problem)
        self._end()


def _write(targets: list[tuple[ArrayLeaf, int]]) -> None:
    for leaf, address in targets:
        data = bytes(torch_adapter.FRAMEWORK.buffer(leaf))
        ctypes.memmove(address, data, len(data))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Every larger tensor lies on it: a weight, and its momentum."""
    monkeypatch.setenv("LASTGOOD_KEEPER", "on")
    monkeypatch.setattr(overlap, "LEAST_BYTES", 32 * 2**10)
    made = Device()
    holds = torch_adapter._holds_its_bytes
    monkeypatch.setattr(torch_adapter, "_holds_its_bytes", lambda tensor: tensor.numel() < 10_000 and holds(tensor))
    monkeypatch.setattr(torch_adapter.TorchFramework, "device_copies", lambda self: made)
    return made


def train(
    path: Path, steps: int = 4, is_overlapped: bool = False, in_forward: Any = None, **settings: Any
) -> list[Any]:
    """Saves every step; the weight after each step."""
    torch.manual_seed(1)
    model = torch.nn.Linear(128, 128)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = []
    with lastgood.Run(
        {"model": model, "optimizer": optimizer},
        job=path,
        every=1,
        overlap=is_overlapped,
        keep=lastgood.Keep(last=None),
        **settings,
    ) as run:
        for step in run.steps(steps):
            if in_forward is not None:
                in_forward(run, model, step)
            model(torch.ones(2, 128)).sum().backward()
            optimizer.step()
            seen.append(model.weight.detach().clone())
    return seen


def saved(path: Path) -> dict[int, bytes]:
    job = open_job(path)
    checkpoints = [open_checkpoint(job, listed.name) for listed in list_checkpoints(job)]
    return {c.manifest.step: bytes(c.read(0, ["model.weight"])["model.weight"]) for c in checkpoints}


def expected(seen: list[Any]) -> dict[int, bytes]:
    return {step: weight.numpy().tobytes() for step, weight in enumerate(seen, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("is_overlapped", [False, True], ids=["at once", "beside"])
def test_every_checkpoint_holds_what_was_on_the_device_at_its_safe_point(
    tmp_path: Path, device: Device, is_overlapped: bool
) -> None:
    seen = train(tmp_path / "job", is_overlapped=is_overlapped)
    assert saved(tmp_path / "job") == expected(seen)
    first = next(text for text in device.said if text.startswith("now"))
    # The weight and its momentum.
    assert first == ("now 0, later 2" if is_overlapped else "now 2, later 0")
    assert ("step held" in device.said) is is_overlapped


@pytest.mark.slow
def test_the_keeper_hears_of_a_snapshot_when_the_device_is_done_with_it(tmp_path: Path, device: Device) -> None:
    given = {}

    def look(run: lastgood.Run, model: Any, step: int) -> None:
        device.is_slow = step == 2
        if step == 3:
            background = run._session._saver._background  # type: ignore[union-attr]
            given[step] = [order.step for _, order in background._slots.ordered()]
            assert 2 in background.unfinished()

    seen = train(tmp_path / "job", is_overlapped=True, in_forward=look)
    assert 2 not in given[3]
    assert saved(tmp_path / "job") == expected(seen)


@pytest.mark.slow
def test_memory_is_pinned_while_it_is_used_and_unpinned_before_it_is_given_back(tmp_path: Path, device: Device) -> None:
    pinned = []
    train(tmp_path / "job", in_forward=lambda run, model, step: pinned.append(len(device.pinned)))
    assert pinned[-1] == 2
    assert device.pinned == set()


@pytest.mark.slow
def test_memory_that_cannot_be_pinned_is_said_once_and_used_all_the_same(
    tmp_path: Path, device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    device.pin_problem = "no more locked memory"
    seen = train(tmp_path / "job", steps=6)
    assert capsys.readouterr().err.count("no more locked memory") == 1
    assert saved(tmp_path / "job") == expected(seen)


@pytest.mark.slow
def test_a_device_that_fails_costs_the_save_and_says_so(
    tmp_path: Path, device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(run: lastgood.Run, model: Any, step: int) -> None:
        device.copy_problem = "an illegal memory access" if step == 2 else ""

    train(tmp_path / "job", in_forward=fail)
    said = capsys.readouterr().err
    assert "could not be copied: an illegal memory access" in said
    assert "SAVE FAILED at step 2" in said
    assert saved(tmp_path / "job").keys() == {1, 3, 4}


@pytest.mark.slow
def test_a_parameter_on_a_device_that_changes_too_early_is_seen(
    tmp_path: Path, device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(run: lastgood.Run, model: Any, step: int) -> None:
        device.is_slow = step == 2
        if step == 3:
            with torch.no_grad():
                model.weight.add_(1)

    train(tmp_path / "job", is_overlapped=True, in_forward=change)
    said = capsys.readouterr().err
    assert "model.weight changed while the snapshot of step 2 was copied" in said
    assert 2 not in saved(tmp_path / "job")
