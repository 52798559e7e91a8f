"""PyTorch in a job's state: tensors, modules, optimizers and generators come back bit for bit, or are refused by name."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood
from frameworks.boxes import Box, stored
from frameworks.conftest import Save
from lastgood.core.errors import LastgoodError, StateMismatchError, UnstorableError, UsageError
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint

torch = pytest.importorskip("torch")
nn = torch.nn
FRAMEWORK: Any = importlib.import_module("lastgood.frameworks.torch_adapter").FRAMEWORK


def bits(tensor: Any) -> bytes:
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""


def assert_same(a: Any, b: Any) -> None:
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert bits(a) == bits(b)


DTYPES = [
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
]  # fmt: skip


def make(dtype: str, shape: tuple[int, ...] = (4, 3)) -> Any:
    """Random bytes taken for such a tensor: NaNs of all kinds are among them."""
    torch.manual_seed(1)
    kind = getattr(torch, dtype, None)
    if kind is None:
        pytest.skip(f"this torch has no {dtype}")
    size = torch.empty(0, dtype=kind).element_size()
    count = torch.Size(shape).numel()
    data = torch.randint(0, 2 if dtype == "bool" else 256, (count * size,), dtype=torch.uint8)
    return (data.bool() if dtype == "bool" else data.view(kind)).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_in_place_and_as_a_value(save: Save, load: Save, dtype: str) -> None:
    tensor = make(dtype)
    save({"tensor": tensor, "box": Box(tensor.clone())})
    here, box = torch.zeros(4, 3, dtype=torch.uint8).to(tensor.dtype), Box()
    load({"tensor": here, "box": box})
    assert_same(here, tensor)
    assert_same(box.content, tensor)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex128", "float8_e5m2"])
def test_tensors_without_dimensions_or_elements_keep_their_shape(
    save: Save, load: Save, shape: tuple[int, ...], dtype: str
) -> None:
    tensor = make(dtype, shape)
    save({"tensor": tensor, "box": Box(tensor.clone())})
    here, box = torch.zeros(shape).to(tensor.dtype), Box()
    load({"tensor": here, "box": box})
    assert_same(here, tensor)
    assert_same(box.content, tensor)


def views() -> dict[str, Any]:
    base = torch.arange(24.0).reshape(4, 6)
    numbers = torch.complex(base, -base)
    return {
        "transposed": base.T,
        "every second": base[::2, ::3],
        "flipped": base.flip(0),
        "expanded": base[0].expand(3, 6),
        "channels last": torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last),
        "conjugated": numbers.conj(),
        "imaginary part of a conjugate": numbers.conj().imag,
        "conjugated double": numbers.to(torch.complex128).conj()[::2],
        "offset": base.reshape(-1)[5:],
    }


@pytest.mark.parametrize("name", views())
def test_values_count_and_not_how_they_lie_in_memory(save: Save, load: Save, name: str) -> None:
    tensor = views()[name]
    save({"box": Box(tensor)})
    box = Box()
    load({"box": box})
    assert_same(box.content, tensor.clone())
    assert not box.content.is_conj()
    assert not box.content.is_neg()


def test_a_view_is_restored_in_place_and_nothing_beside_it_is_touched(save: Save, load: Save) -> None:
    save({"tensor": torch.full((2, 2), 7.0)})
    memory = torch.zeros(4, 6)
    load({"tensor": memory[::2, ::3]})
    assert memory.sum() == 28
    assert (memory[::2, ::3] == 7).all()


def test_the_object_its_views_and_requires_grad_stay(save: Save, load: Save) -> None:
    save({"weight": torch.arange(3.0, requires_grad=True)})
    weight = torch.zeros(3, requires_grad=True)
    view = weight.detach()[1:]
    load({"weight": weight})
    assert view.tolist() == [1, 2]
    assert weight.requires_grad
    assert weight.is_leaf
    (weight * 2).sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]


def test_what_is_loaded_as_a_value_can_be_written_to_and_shares_nothing(save: Save, load: Save) -> None:
    save({"box": Box([torch.zeros(2), torch.zeros(2)])})
    box = Box()
    load({"box": box})
    first, second = box.content
    first += 1
    assert (first.tolist(), second.tolist()) == ([1, 1], [0, 0])
    assert not first.requires_grad


class Marked(torch.Tensor):
    pass


def refused() -> dict[str, tuple[Any, str]]:
    return {
        "sparse": (torch.eye(2).to_sparse(), "torch.sparse_coo"),
        "meta": (torch.empty(2, device="meta"), "on meta"),
        "subclass": (torch.zeros(2).as_subclass(Marked), r"a Marked \(a subclass of Tensor\)"),
    }


@pytest.mark.parametrize("name", refused())
@pytest.mark.parametrize("wrap", [lambda tensor: tensor, Box], ids=["in place", "value"])
def test_what_would_not_come_back_as_it_was_is_refused_at_the_start_by_name(
    save: Save, name: str, wrap: Callable[[Any], Any], tmp_path: Path
) -> None:
    tensor, reason = refused()[name]
    with pytest.raises(UnstorableError, match=rf"weights(\.content)?: cannot store .*{reason}"):
        save({"weights": wrap(tensor)})
    assert not list_checkpoints(open_job(tmp_path / "job"))


@pytest.mark.filterwarnings("ignore")
def test_a_quantized_a_compressed_and_a_nested_tensor_are_refused_too(save: Save) -> None:
    tensors = {
        "quantized": torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.quint8),
        "torch.sparse_csr": torch.eye(2).to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)]),
    }
    for reason, tensor in tensors.items():
        with pytest.raises(UnstorableError, match=rf"box\.content: cannot store a .*{reason}"):
            save({"box": Box(tensor)})


def test_an_expanded_tensor_cannot_be_restored_in_place_and_is_refused_by_name(save: Save) -> None:
    with pytest.raises(UsageError, match=r"weights: .*expanded"):
        save({"weights": torch.zeros(1).expand(3)})


@pytest.mark.parametrize(
    ("here", "line"),
    [
        (torch.zeros(4), r"weights is float32\[4\] here, but float32\[3\] in the checkpoint"),
        (torch.zeros(3, dtype=torch.bfloat16), r"weights is bfloat16\[3\] here, but float32\[3\] in the checkpoint"),
    ],
)
def test_another_shape_or_dtype_is_refused_and_nothing_changes(save: Save, load: Save, here: Any, line: str) -> None:
    save({"weights": torch.ones(3), "other": torch.ones(1)})
    other = torch.zeros(1)
    with pytest.raises(StateMismatchError, match=line):
        load({"other": other, "weights": here})
    assert not other.any()
    assert not here.any()


# Modules ------------------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("aside", torch.zeros(2), persistent=False)


def test_tied_weights_are_stored_once_and_are_still_tied(save: Save, load: Save, tmp_path: Path) -> None:
    torch.manual_seed(1)
    saved = Tied()
    saved.aside += 1
    save({"model": saved})
    names = stored(tmp_path / "job")
    assert len([spec for spec in names.values() if spec == ("F32", (5, 4))]) == 1
    model = Tied()
    load({"model": model})
    assert model.out.weight is model.embed.weight
    for name, value in saved.state_dict().items():
        assert_same(model.state_dict()[name], value)
    assert not model.aside.any(), "a buffer that is not persistent is not part of the state"


def test_parameters_keep_their_identity_so_that_the_optimizer_still_has_them(save: Save, load: Save) -> None:
    save({"model": nn.Linear(2, 2)})
    model = nn.Linear(2, 2)
    before = [id(p) for p in model.parameters()]
    load({"model": model})
    assert [id(p) for p in model.parameters()] == before
    assert all(p.requires_grad for p in model.parameters())


def test_all_differences_of_a_module_are_listed_and_nothing_is_loaded(save: Save, load: Save) -> None:
    save({"model": nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(3, 1, bias=False), "old": nn.Linear(1, 1)})})
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(4, 1, bias=False), "new": nn.Linear(1, 1).half()})
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(StateMismatchError) as caught:
        load({"model": model})
    for line in (
        "model.b.weight is float32[1, 4] here, but float32[1, 3] in the checkpoint",
        "model.new.weight is missing in the checkpoint",
        "model.new.bias is missing in the checkpoint",
        "model.old.weight is only in the checkpoint",
    ):
        assert line in str(caught.value)
    assert "nothing was loaded or changed" in str(caught.value)
    for name, value in model.state_dict().items():
        assert_same(value, before[name])


def test_another_precision_is_refused_and_never_rounded(save: Save, load: Save) -> None:
    save({"model": nn.Linear(2, 2)})
    with pytest.raises(StateMismatchError, match=r"model\.weight is bfloat16\[2, 2\] here, but float32\[2, 2\]"):
        load({"model": nn.Linear(2, 2).bfloat16()})


def test_a_modules_own_versions_are_those_of_this_program(save: Save, load: Save) -> None:
    """Without them a module could take what it loads for a format of long ago."""

    class Versioned(nn.Module):
        _version = 3
        seen: Any = None

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
            type(self).seen = metadata.get("version")
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    save({"model": Versioned()})
    load({"model": Versioned()})
    assert Versioned.seen == 3


def test_extra_state_of_a_module_comes_back(save: Save, load: Save) -> None:
    class Extra(nn.Linear):
        note: Any = None

        def get_extra_state(self) -> Any:
            return {"note": self.note}

        def set_extra_state(self, state: Any) -> None:
            self.note = state["note"]

    saved, model = Extra(1, 1), Extra(1, 1)
    saved.note = ("a", 1)
    save({"model": saved})
    load({"model": model})
    assert model.note == ("a", 1)


# Optimizers, schedules, scalers ---------------------------------------------------------------------------------------


def trained(make_optimizer: Callable[[Any], Any], steps: int = 3) -> tuple[Any, Any]:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    optimizer = make_optimizer(model.parameters())
    go_on(model, optimizer, steps)
    return model, optimizer


def go_on(model: Any, optimizer: Any, steps: int, start: int = 0) -> None:
    for step in range(start, start + steps):
        x = torch.arange(6.0).reshape(2, 3) + step

        def closure(x: Any = x) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.01, max_iter=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_goes_on_bit_for_bit(save: Save, load: Save, name: str) -> None:
    model, optimizer = trained(OPTIMIZERS[name])
    save({"model": model, "optimizer": optimizer})
    go_on(model, optimizer, 3, start=3)
    torch.manual_seed(2)
    again = nn.Linear(3, 2)
    other = OPTIMIZERS[name](again.parameters())
    load({"model": again, "optimizer": other})
    go_on(again, other, 3, start=3)
    for here, there in zip(again.parameters(), model.parameters(), strict=True):
        assert_same(here, there)


def test_adams_step_counters_keep_their_value_type_and_device(save: Save, load: Save) -> None:
    _, optimizer = trained(OPTIMIZERS["adam"], steps=5)
    save({"optimizer": optimizer})
    other = OPTIMIZERS["adam"](nn.Linear(3, 2).parameters())
    load({"optimizer": other})
    for here, there in zip(other.state.values(), optimizer.state.values(), strict=True):
        assert float(here["step"]) == 5
        assert (here["step"].dtype, here["step"].device) == (there["step"].dtype, there["step"].device)


def test_what_an_optimizer_keeps_is_its_own_memory_and_not_the_buffer_that_was_read(save: Save, load: Save) -> None:
    _, optimizer = trained(OPTIMIZERS["adam"])
    save({"first": optimizer, "second": optimizer})
    one, two = (OPTIMIZERS["adam"](nn.Linear(3, 2).parameters()) for _ in range(2))
    load({"first": one, "second": two})
    tensors = [value for o in (one, two) for state in o.state.values() for value in state.values()]
    assert len({t.data_ptr() for t in tensors}) == len(tensors)
    assert all(t.untyped_storage().nbytes() == t.numel() * t.element_size() for t in tensors)


@pytest.mark.parametrize("is_fused", [False, True])
def test_an_optimizer_of_a_channels_last_model_goes_on_bit_for_bit(save: Save, load: Save, is_fused: bool) -> None:
    def make_both(seed: int) -> tuple[Any, Any]:
        torch.manual_seed(seed)
        model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01, fused=is_fused)

    def go_on(model: Any, optimizer: Any) -> None:
        for step in range(3):
            optimizer.zero_grad()
            x = torch.linspace(-1, 1, 2 * 3 * 25).reshape(2, 3, 5, 5) + step
            model(x.contiguous(memory_format=torch.channels_last)).square().mean().backward()
            optimizer.step()

    saved, here = make_both(1), make_both(2)
    go_on(*saved)
    save(dict(zip(("model", "optimizer"), saved, strict=True)))
    load(dict(zip(("model", "optimizer"), here, strict=True)))
    moments = here[1].state[here[0].weight]
    assert moments["exp_avg"].stride() == moments["exp_avg_sq"].stride() == here[0].weight.stride()
    go_on(*saved)
    go_on(*here)
    assert_same(here[0].weight, saved[0].weight)


def test_what_an_optimizer_keeps_in_another_precision_than_the_parameter_is_not_rounded(save: Save, load: Save) -> None:
    def make_optimizer() -> Any:
        return torch.optim.SGD(nn.Linear(3, 2, dtype=torch.bfloat16).parameters(), lr=0.1)

    saved, here = make_optimizer(), make_optimizer()
    master = torch.linspace(0, 1, 6).reshape(2, 3)
    saved.state[saved.param_groups[0]["params"][0]]["master"] = master
    save({"optimizer": saved})
    load({"optimizer": here})
    assert_same(here.state[here.param_groups[0]["params"][0]]["master"], master)


def test_a_setting_that_is_a_tensor_is_put_on_the_device_of_this_program() -> None:
    _, saved = trained(OPTIMIZERS["adamw"])
    _, here = trained(OPTIMIZERS["adamw"])
    # Stands in for a GPU.
    here.param_groups[0]["lr"] = torch.tensor(0.01, device="meta")
    FRAMEWORK.adapt(here).restore(saved.state_dict())
    assert here.param_groups[0]["lr"].device.type == "meta"


def test_parameter_groups_keep_their_settings(save: Save, load: Save) -> None:
    def make_optimizer() -> Any:
        groups = [{"params": nn.Linear(1, 1).parameters(), "lr": 0.5}, {"params": nn.Linear(2, 1).parameters()}]
        return torch.optim.SGD(groups, lr=0.1)

    saved, here = make_optimizer(), make_optimizer()
    saved.param_groups[0]["lr"] = 0.25
    saved.param_groups[1]["momentum"] = 0.5
    save({"optimizer": saved})
    load({"optimizer": here})
    assert [(g["lr"], g["momentum"]) for g in here.param_groups] == [(0.25, 0), (0.1, 0.5)]


def test_a_changed_setting_that_the_optimizer_keeps_as_saved_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(lr: float) -> tuple[Any, lastgood.Run]:
        optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=lr, momentum=lr)
        settings: Any = {"config": {"lr": lr}, "allow_config_change": ["lr", "momentum"]}
        return optimizer, lastgood.Run({"parts": [optimizer]}, job=tmp_path / "job", **settings)

    _, run = start(0.1)
    with run:
        list(run.steps(1))
    optimizer, run = start(0.2)
    run.close()
    assert optimizer.param_groups[0]["lr"] == 0.1
    said = capsys.readouterr().err
    assert "parts goes on with lr 0.1 as it was saved, not 0.2; to change it, set it after lastgood.Run is made" in said
    assert "momentum 0.1 as it was saved" not in said, "which is no setting that was changed"


def test_other_parameter_groups_are_refused(save: Save, load: Save) -> None:
    save({"optimizer": torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1), "other": Box(1)})
    with pytest.raises(StateMismatchError, match=r"optimizer has parameter groups of \[1\] here, but of \[2\]"):
        load({"optimizer": torch.optim.SGD(nn.Linear(1, 1, bias=False).parameters(), lr=0.1), "other": Box()})


def test_what_is_no_optimizer_in_the_checkpoint_is_refused(save: Save, load: Save) -> None:
    save({"a": Box(1), "b": torch.zeros(1), "c": Box(1)})
    with pytest.raises(LastgoodError) as caught:
        load({"a": torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1), "b": nn.Linear(1, 1), "c": torch.zeros(1)})
    assert "a is an optimizer here, but not in the checkpoint" in str(caught.value)
    assert "b is a module here, but not in the checkpoint" in str(caught.value)
    assert "c is a tensor here, but dict in the checkpoint" in str(caught.value)


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "multistep": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 4, 4], gamma=0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "onecycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on(save: Save, load: Save, name: str) -> None:
    def go_on(optimizer: Any, schedule: Any) -> list[float]:
        rates = []
        for _ in range(3):
            optimizer.step()
            schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    def make_both() -> tuple[Any, Any]:
        optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1, momentum=0.9)
        return optimizer, SCHEDULES[name](optimizer)

    saved = make_both()
    go_on(*saved)
    save(dict(zip(("optimizer", "schedule"), saved, strict=True)))
    expected = go_on(*saved)
    here = make_both()
    load(dict(zip(("optimizer", "schedule"), here, strict=True)))
    assert go_on(*here) == expected


def test_a_gradient_scaler_goes_on(save: Save, load: Save) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    model, optimizer = trained(OPTIMIZERS["sgd"])
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(1, 3)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    save({"scaler": scaler})
    here = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    load({"scaler": here})
    assert here.state_dict() == scaler.state_dict()
    assert here.get_scale() == 16.0


# Random numbers ------------------------------------------------------------------------------------------------------


def test_a_generator_goes_on_where_it_was(save: Save, load: Save) -> None:
    generator = torch.Generator().manual_seed(1)
    torch.rand(3, generator=generator)
    torch.randn(1, generator=generator)
    save({"generator": generator})
    expected = torch.randn(5, generator=generator)
    here = torch.Generator().manual_seed(2)
    load({"generator": here})
    assert_same(torch.randn(5, generator=here), expected)


def test_the_global_generator_goes_on(save: Save, load: Save) -> None:
    torch.manual_seed(1)
    torch.randn(1)
    save({"x": torch.zeros(1)})
    expected = torch.randn(20)
    torch.manual_seed(2)
    load({"x": torch.zeros(1)})
    assert_same(torch.randn(20), expected)


# What is captured --------------------------------------------------------------------------------------------------


def test_a_checkpoint_holds_the_state_of_its_safe_point_although_state_dict_gives_live_tensors(tmp_path: Path) -> None:
    model = nn.Linear(300, 300)
    with torch.no_grad():
        model.weight.zero_()
    with lastgood.Run({"model": model}, job=tmp_path / "job", every=1, keep=lastgood.Keep(last=None)) as run:
        for _ in run.steps(3):
            with torch.no_grad():
                model.weight += 1
    with torch.no_grad():
        model.weight.fill_(-1)
    job = open_job(tmp_path / "job")
    checkpoints = list_checkpoints(job)
    assert len(checkpoints) == 3
    for listed in checkpoints:
        data = open_checkpoint(job, listed.name).read(0, ["model.weight"])["model.weight"]
        assert (torch.frombuffer(data, dtype=torch.float32) == listed.step).all()


class TestReadInPlace:
    """Parameters and buffers are filled where they are; modules that do more than copy when they load still do it."""

    def here_and_saved(self, save: Save, make_module: Callable[[], Any]) -> tuple[Any, Any]:
        torch.manual_seed(1)
        saved = make_module()
        save({"model": saved})
        torch.manual_seed(2)
        return make_module(), saved

    @pytest.mark.parametrize("kind", ["plain", "batch norm", "tied", "bfloat16", "frozen", "channels last"])
    def test_a_module_is_filled(self, save: Save, load: Save, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        def make_module() -> Any:
            module = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Linear(4, 4), nn.Linear(4, 4))
            module[1].running_mean.normal_()
            if kind == "tied":
                module[3].weight = module[2].weight
            if kind == "bfloat16":
                module = module.to(torch.bfloat16)
            if kind == "frozen":
                module[0].requires_grad_(False)
            if kind == "channels last":
                module = module.to(memory_format=torch.channels_last)
            return module

        here, saved = self.here_and_saved(save, make_module)
        loads = []
        real = nn.Module.load_state_dict
        monkeypatch.setattr(
            nn.Module, "load_state_dict", lambda *given, **named: loads.append(1) or real(*given, **named)
        )
        load({"model": here})
        for one, two in zip(here.state_dict().values(), saved.state_dict().values(), strict=True):
            assert_same(one, two)
        assert len(loads) == (kind == "channels last"), "only what does not lie in order is copied"
        assert all(
            p.requires_grad == q.requires_grad for p, q in zip(here.parameters(), saved.parameters(), strict=True)
        )

    def test_hooks_of_loading_are_called(self, save: Save, load: Save) -> None:
        here, _ = self.here_and_saved(save, lambda: nn.Sequential(nn.Linear(2, 2)))
        called = []
        here[0].register_load_state_dict_post_hook(lambda module, keys: called.append(module))
        load({"model": here})
        assert called == [here[0]]

    @pytest.mark.parametrize("method", ["load_state_dict", "_load_from_state_dict"])
    def test_a_module_that_loads_in_its_own_way_does(self, save: Save, load: Save, method: str) -> None:
        class Doubling(nn.Linear):
            pass

        def double(self: Any, state: Any, *rest: Any, **named: Any) -> Any:
            doubled = {name: 2 * value if torch.is_tensor(value) else value for name, value in state.items()}
            return getattr(nn.Linear, method)(self, doubled, *rest, **named)

        setattr(Doubling, method, double)
        here, saved = self.here_and_saved(save, lambda: Doubling(2, 2))
        load({"model": here})
        assert_same(here.weight, 2 * saved.weight)

    def test_state_that_is_no_parameter_and_no_buffer_is_loaded_by_the_module(self, save: Save, load: Save) -> None:
        class Counting(nn.Linear):
            count = 0

            def get_extra_state(self) -> Any:
                return torch.tensor(self.count)

            def set_extra_state(self, state: Any) -> None:
                self.count = int(state)

        def make_module() -> Any:
            module = Counting(2, 2)
            module.count = int(torch.initial_seed())
            return module

        here, saved = self.here_and_saved(save, make_module)
        load({"model": here})
        assert here.count == 1
        assert_same(here.weight, saved.weight)
