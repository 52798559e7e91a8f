"""State on GPUs: it comes back from any device to whatever device the program's own objects are on."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.core.errors import UsageError
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here that torch can use"),
]

Run = Callable[..., None]


@pytest.fixture
def save(tmp_path: Path) -> Run:
    """`save(state)`: commits it as the state of step 1."""

    def commit(state: dict[str, Any]) -> None:
        with lastgood.Run(state, job=tmp_path / "job", fresh=True) as run:
            list(run.steps(1))

    return commit


@pytest.fixture
def load(tmp_path: Path) -> Run:
    """`load(state)`: restores what was saved into these objects."""

    def restore(state: dict[str, Any]) -> None:
        with lastgood.Run(state, job=tmp_path / "job") as run:
            assert run.step == 1

    return restore


def make(device: str, seed: int) -> tuple[Any, Any]:
    """A model and its optimizer after three steps there."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, optimizer, device, 3)
    return model, optimizer


def train(model: Any, optimizer: Any, device: str, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.arange(32.0, device=device).reshape(8, 4) + step).square().mean().backward()
        optimizer.step()


def tensors(model: Any, optimizer: Any) -> list[Any]:
    """All state, on the CPU."""
    moments = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
    return [value.detach().cpu().clone() for value in [*model.state_dict().values(), *moments]]


def assert_equal(a: list[Any], b: list[Any]) -> None:
    assert len(a) == len(b)
    assert all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("saved_on", "loaded_on"), [("cuda:0", "cuda:0"), ("cuda:0", "cpu"), ("cpu", "cuda:0")], ids=lambda name: name
)
def test_model_and_optimizer_move_between_devices(save: Run, load: Run, saved_on: str, loaded_on: str) -> None:
    model, optimizer = make(saved_on, 1)
    save({"model": model, "optimizer": optimizer})
    expected = tensors(model, optimizer)
    here, other = make(loaded_on, 2)
    load({"model": here, "optimizer": other})
    assert_equal(tensors(here, other), expected)
    assert {str(p.device) for p in here.parameters()} == {loaded_on}
    moments = [state["exp_avg"] for state in other.state.values()]
    assert {str(moment.device) for moment in moments} == {loaded_on}
    train(here, other, loaded_on, 1)


def test_going_on_after_a_resume_is_equal_bit_for_bit_dropout_included(save: Run, load: Run) -> None:
    model, optimizer = make("cuda:0", 1)
    save({"model": model, "optimizer": optimizer})
    train(model, optimizer, "cuda:0", 5)
    here, other = make("cuda:0", 2)
    load({"model": here, "optimizer": other})
    train(here, other, "cuda:0", 5)
    assert_equal(tensors(here, other), tensors(model, optimizer))


def test_the_generators_of_every_device_go_on(save: Run, load: Run) -> None:
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    for i, device in enumerate(devices):
        torch.cuda.set_rng_state(torch.Generator(device).manual_seed(i).get_state(), device)
        torch.randn(i + 1, device=device)
    save({"x": torch.zeros(1)})
    expected = [torch.randn(5, device=device).cpu() for device in devices]
    torch.cuda.manual_seed_all(99)
    load({"x": torch.zeros(1)})
    assert_equal([torch.randn(5, device=device).cpu() for device in devices], expected)


def test_a_generator_on_a_device_goes_on(save: Run, load: Run) -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    torch.randn(3, generator=generator, device="cuda")
    save({"generator": generator})
    expected = torch.randn(5, generator=generator, device="cuda").cpu()
    here = torch.Generator("cuda").manual_seed(2)
    load({"generator": here})
    assert_equal([torch.randn(5, generator=here, device="cuda").cpu()], [expected])


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "complex128", "float8_e4m3fn"])
def test_tensors_of_every_kind_of_layout_come_back(save: Run, load: Run, dtype: str) -> None:
    kind = getattr(torch, dtype)
    base = torch.arange(24.0, device="cuda").reshape(4, 6).to(kind)
    state = {"plain": base, "transposed": base.T, "part": base[::2, ::3], "scalar": base[1, 1], "empty": base[:0]}
    save(state)
    here = {name: torch.zeros(value.shape, device="cuda").to(kind) for name, value in state.items()}
    load(here)
    for name, value in state.items():
        assert here[name].device.type == "cuda"
        assert here[name].cpu().contiguous().view(-1).tolist() == value.cpu().contiguous().view(-1).tolist()


def test_equal_addresses_on_two_devices_are_not_taken_for_one_memory(save: Run, load: Run) -> None:
    on_gpu, on_cpu = torch.ones(1000, device="cuda"), torch.zeros(1000)
    save({"gpu": on_gpu, "cpu": on_cpu, "again": on_gpu})
    here = {"gpu": torch.zeros(1000), "cpu": torch.ones(1000), "again": torch.zeros(1000, device="cuda")}
    load(here)
    assert (float(here["gpu"].sum()), float(here["cpu"].sum()), float(here["again"].sum())) == (1000, 0, 1000)


def test_a_checkpoint_holds_the_state_of_its_safe_point_although_kernels_are_still_running(
    save: Run, load: Run
) -> None:
    x = torch.zeros(2000, 2000, device="cuda")
    for _ in range(200):
        x += 1
    save({"x": x})
    for _ in range(200):
        x += 1
    here = torch.zeros(2000, 2000, device="cuda")
    load({"x": here})
    assert bool((here == 200).all())


def test_a_gradient_scaler_goes_on(save: Run, load: Run) -> None:
    model, optimizer = make("cuda:0", 1)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=2)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.ones(8, 4, device="cuda")).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    save({"scaler": scaler})
    here = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=2)
    load({"scaler": here})
    assert here.state_dict() == scaler.state_dict()


# Copies beside the loop -----------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "adamw, fused": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
    "adam, capturable": lambda parameters: torch.optim.Adam(parameters, lr=0.01, capturable=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
}


def save_every_step(
    path: Path, is_overlapped: bool, optimizer: str = "adamw", steps: int = 6, **hooks: Callable[..., None]
) -> dict[int, dict[str, bytes]]:
    """The arrays of the checkpoint of each step. The passes are long enough for copies to be under way meanwhile."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2048, 2048), nn.BatchNorm1d(2048), nn.Dropout(0.2), nn.Linear(2048, 2048)).cuda()
    chosen = OPTIMIZERS[optimizer](model.parameters())
    x = torch.randn(64, 2048, device="cuda")
    with lastgood.Run(
        {"model": model, "optimizer": chosen},
        job=path,
        every=1,
        overlap=is_overlapped,
        keep=lastgood.Keep(last=None),
    ) as run:
        for step in run.steps(steps):
            if "in_forward" in hooks:
                hooks["in_forward"](run, model, step)
            chosen.zero_grad()
            model(x).square().mean().backward()
            chosen.step()
    job = open_job(path)
    found = {}
    for listed in list_checkpoints(job):
        checkpoint = open_checkpoint(job, listed.name)
        found[checkpoint.manifest.step] = {
            name: bytes(checkpoint.read(0, [name])[name]) for name in checkpoint.arrays(0)
        }
    return found


@pytest.fixture
def deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.filterwarnings("ignore:.*deterministic.*")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.usefixtures("deterministic")
def test_every_checkpoint_is_equal_to_one_that_was_copied_at_once(tmp_path: Path, optimizer: str) -> None:
    beside = save_every_step(tmp_path / "beside", True, optimizer)
    at_once = save_every_step(tmp_path / "at once", False, optimizer)
    assert beside.keys() == at_once.keys() == {1, 2, 3, 4, 5, 6}
    for step, arrays in at_once.items():
        assert [name for name in arrays if beside[step][name] != arrays[name]] == [], f"step {step}"


def test_memory_that_is_copied_to_is_pinned_and_not_any_more_after_the_end(tmp_path: Path) -> None:
    pinned = []

    def look(run: lastgood.Run, model: Any, step: int) -> None:
        for arena in run._session._saver._background._slots.arenas if step == 6 else ():  # type: ignore[union-attr]
            memory = (ctypes.c_ubyte * arena.capacity).from_address(arena.address)
            pinned.append(torch.frombuffer(memory, dtype=torch.uint8).is_pinned())

    save_every_step(tmp_path / "job", False, in_forward=look)
    assert pinned == [True, True]
    # A kernel that is launched now would meet the error of a failed call.
    torch.ones(1, device="cuda").sum().item()


def test_a_parameter_that_is_changed_in_the_forward_pass_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(run: lastgood.Run, model: Any, step: int) -> None:
        if step == 3:
            # The copy is still behind this when the change is made.
            torch.cuda._sleep(100_000_000)
            with torch.no_grad():
                model[0].weight.add_(1)

    def slow_down(run: lastgood.Run, model: Any, step: int) -> None:
        change(run, model, step)
        if step == 2:
            torch.cuda._sleep(1_000_000_000)

    found = save_every_step(tmp_path / "job", True, in_forward=slow_down)
    # Where the device was quicker, the snapshot was whole before the change.
    if 2 not in found:
        assert "model.0.weight changed while the snapshot of step 2" in capsys.readouterr().err
    assert {3, 4, 5, 6} <= found.keys()


def test_an_optimizer_in_a_cuda_graph_is_refused(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.ones(256, 256, device="cuda"))
    optimizer = torch.optim.Adam([weight], lr=0.1, capturable=True)
    with lastgood.Run({"w": weight, "optimizer": optimizer}, job=tmp_path / "job", every=1, overlap=True) as run:
        for step in run.steps(3):
            weight.grad = torch.ones_like(weight)
            if step < 3:
                optimizer.step()
                continue
            graph = torch.cuda.CUDAGraph()
            with pytest.raises(UsageError, match="CUDA graph"), torch.cuda.graph(graph):
                optimizer.step()
