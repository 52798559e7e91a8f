"""`lastgood export`: other tools read what it writes, and find what was saved."""

import importlib.util
import json
import os
import struct
import subprocess
import sys
from collections import OrderedDict, deque

import numpy as np
import pytest
from safetensors.numpy import load_file

from lastgood.core import layout
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import flatten
from lastgood.frameworks.numpy_adapter import FRAMEWORK as NUMPY
from lastgood.store.writer import CheckpointWriter

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def save(job, step, tree, frameworks=(NUMPY,), *, ranks=1, attempt=1):
    """Commit a checkpoint of `tree`, or of `tree(rank)` for several ranks; arrays are not shared."""
    writer = CheckpointWriter(job, step, attempt)
    by_name = {framework.name: framework for framework in frameworks}
    for rank in range(ranks):
        flat = flatten(tree(rank) if callable(tree) else tree, frameworks)
        arrays = [
            (ArraySpec(name, leaf.dtype, leaf.shape), by_name[leaf.kind].buffer(leaf))
            for name, leaf in flat.arrays.items()
        ]
        writer.write_part(rank, arrays, flat.skeleton)
    return writer.commit(ranks)


WEIGHTS = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "n": np.array(7, dtype=np.int64),
    "mask": np.array([True, False]),
    "none": np.empty((0, 3), dtype=np.float16),
}


def state():
    return {
        "model": dict(WEIGHTS),
        "optimizer": {"lr": 0.1, "betas": (0.9, 0.999), "big": 2**80, "nan": float("nan")},
        "lastgood.progress": {"step": 5},
    }


def test_safetensors_reads_the_arrays_and_the_rest_is_beside(lastgood, job, tmp_path):
    save(job, 5, state())
    said = lastgood("export", job.path, "--to", tmp_path / "out.safetensors")
    assert said.code == 0, said.err
    found = load_file(tmp_path / "out.safetensors")
    assert found.keys() == {f"model.{name}" for name in WEIGHTS}
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(found[f"model.{name}"], array)
        assert found[f"model.{name}"].dtype == array.dtype
    beside = json.loads((tmp_path / "out.safetensors.json").read_bytes())
    assert beside["step"] == 5
    assert beside["entries"]["optimizer"]["lr"] == 0.1
    assert "lastgood.progress" not in beside["entries"]
    assert "out.safetensors.json" in said.out
    assert "left out: lastgood.progress" in said.out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["job", "out.safetensors", "out.safetensors.json"]


def test_arrays_alone_make_one_file(lastgood, job, tmp_path):
    save(job, 5, state())
    answer = lastgood("export", job.path, "--to", tmp_path / "m.safetensors", "--entry", "model", "--json").answer(
        "export"
    )
    assert answer.files == [str(tmp_path / "m.safetensors")]
    assert (answer.arrays, answer.bytes, answer.entries) == (4, 58, ["model"])
    assert answer.left_out == ["optimizer", "lastgood.progress"]
    assert not (tmp_path / "m.safetensors.json").exists()


def test_all_entries(lastgood, job, tmp_path):
    save(job, 5, state())
    answer = lastgood("export", job.path, "--to", tmp_path / "a.npz", "--all-entries", "--json").answer("export")
    assert (answer.entries, answer.left_out) == (["model", "optimizer", "lastgood.progress"], [])


def test_npz(lastgood, job, tmp_path):
    tree = {**state(), "odd": {"c": np.array([1 + 2j]), "t": np.array(["2026-01-01"], "M8[D]"), "file": np.ones(2)}}
    save(job, 5, tree)
    assert lastgood("export", job.path, "--to", tmp_path / "out.npz").code == 0
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["model.w"], WEIGHTS["w"])
        assert found["odd.c"].tolist() == [1 + 2j]
        assert str(found["odd.t"][0]) == "2026-01-01"
        assert set(found) == {*(f"model.{n}" for n in WEIGHTS), "odd.c", "odd.t", "odd.file"}


def test_a_type_that_safetensors_lacks_is_told(lastgood, job, tmp_path):
    save(job, 5, {"odd": np.array([1 + 2j])})
    answer = lastgood("export", job.path, "--to", tmp_path / "out.safetensors", "--json").answer("export")
    assert answer.changed == ["odd: stored as U8 [16]; its own type is beside it in the JSON file"]
    beside = json.loads((tmp_path / "out.safetensors.json").read_bytes())
    assert beside["entries"]["odd"] == {"$array": "odd", "kind": "numpy", "dtype": "<c16", "shape": [1]}


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_an_array_is_called_by_its_place_in_what_is_exported(lastgood, job, tmp_path, suffix):
    x = np.arange(3.0)
    save(job, 5, {"a": x, "b": {"again": x}})
    out = tmp_path / f"out.{suffix}"
    assert lastgood("export", job.path, "--to", out, "--entry", "b").code == 0
    found = load_file(out) if suffix == "safetensors" else np.load(out)
    assert {name: found[name].tolist() for name in found} == {"b.again": [0, 1, 2]}


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_an_array_that_is_in_several_places_is_under_each_of_their_names(lastgood, job, tmp_path, suffix):
    x = np.arange(3.0)
    state = {
        "m": OrderedDict([("embed", x), ((1, 2), x)]),
        "values": [np.float32(2), {np.dtype("<f4"): x}],
        "m.embed": x,
    }
    save(job, 5, state)
    out = tmp_path / f"out.{suffix}"
    answer = lastgood("export", job.path, "--to", out, "--json").answer("export")
    found = load_file(out) if suffix == "safetensors" else np.load(out)
    assert set(found) == {"m.embed", "m.(1, 2)", "values.1.<f4", "m.embed#2"}
    assert all(found[name].tolist() == [0, 1, 2] for name in found)
    assert answer.arrays == 4
    beside = json.loads((tmp_path / f"out.{suffix}.json").read_bytes())["entries"]
    assert beside["m"] == {
        "$OrderedDict": [
            ["embed", {"$array": "m.embed", "kind": "numpy"}],
            [{"$tuple": [1, 2]}, {"$array": "m.(1, 2)", "kind": "numpy"}],
        ]
    }
    assert beside["values"][0] == {"$scalar": ["<f4", "AAAAQA=="]}


def test_a_step_can_be_chosen(lastgood, job, save_step, tmp_path):
    save_step(1)
    save_step(2)
    assert lastgood("export", job.path, 1, "--to", tmp_path / "one.safetensors").code == 0
    assert load_file(tmp_path / "one.safetensors")["model.n"] == 1


@pytest.mark.parametrize("suffix", ["safetensors", "npz", pytest.param("pt", marks=[needs_torch, pytest.mark.slow])])
def test_nothing_is_overwritten_unless_asked(lastgood, job, save_step, tmp_path, suffix):
    save_step(1)
    out = tmp_path / f"out.{suffix}"
    out.write_text("mine")
    said = lastgood("export", job.path, "--to", out)
    assert said.code == 2
    assert "--overwrite" in said.err
    assert out.read_text() == "mine"
    assert lastgood("export", job.path, "--to", out, "--overwrite").code == 0
    assert out.read_bytes()[:4] != b"mine"


def test_a_values_file_of_an_older_export_does_not_stay(lastgood, job, tmp_path):
    save(job, 5, state())
    out = tmp_path / "out.safetensors"
    assert lastgood("export", job.path, "--to", out).code == 0
    assert lastgood("export", job.path, "--to", out, "--entry", "model", "--overwrite").code == 0
    assert not (tmp_path / "out.safetensors.json").exists()


@pytest.mark.parametrize("suffix", ["safetensors", "npz", pytest.param("pt", marks=[needs_torch, pytest.mark.slow])])
def test_damage_is_found_while_reading_and_leaves_nothing(lastgood, job, save_step, tmp_path, suffix):
    save_step(1)
    save_step(2)
    data = job.checkpoints / layout.checkpoint_name(2, 1) / layout.data_file(0)
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    said = lastgood("export", job.path, "--to", tmp_path / f"out.{suffix}")
    assert said.code == 65
    assert "block 0" in said.err
    assert "lastgood verify" in said.err
    assert os.listdir(tmp_path) == ["job"]


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--to", "out.bin"], 2, ".bin"),
        (["--to", "o.npz", "--entry", "modle"], 66, "it has: model"),
        (["--to", "o.npz", "--rank", "3"], 66, "no rank 3"),
        (["--to", "o.npz", "--entry", "model", "--all-entries"], 2, "not allowed with"),
        (["9", "--to", "o.npz"], 66, "does not exist"),
        ([], 2, "--to"),
    ],
)
def test_wrong_words(lastgood, job, save_step, tmp_path, monkeypatch, options, code, word):
    monkeypatch.chdir(tmp_path)
    save_step(1)
    said = lastgood("export", job.path, *options)
    assert said.code == code
    assert word in said.err
    assert os.listdir(tmp_path) == ["job"]


def test_what_belongs_to_one_rank_has_its_number(lastgood, job, tmp_path):
    def tree(rank):
        return {"shard": {"w": np.full(2, rank)}, "seed": {"value": rank}, "config": {"a": 1}}

    save(job, 5, tree, ranks=2)
    assert lastgood("export", job.path, "--to", tmp_path / "all.safetensors").code == 0
    found = load_file(tmp_path / "all.safetensors")
    assert {name: array.tolist() for name, array in found.items()} == {
        "rank-00000.shard.w": [0, 0],
        "rank-00001.shard.w": [1, 1],
    }
    entries = json.loads((tmp_path / "all.safetensors.json").read_bytes())["entries"]
    assert entries["config"] == {"a": 1}
    assert (entries["rank-00000.seed"], entries["rank-00001.seed"]) == ({"value": 0}, {"value": 1})
    assert entries["rank-00001.shard"]["w"]["$array"] == "rank-00001.shard.w"
    assert lastgood("export", job.path, "--to", tmp_path / "one.safetensors", "--rank", 1).code == 0
    assert load_file(tmp_path / "one.safetensors")["shard.w"].tolist() == [1, 1]


def test_what_all_ranks_share_is_written_once(lastgood, job, tmp_path):
    writer = CheckpointWriter(job, 3, 1)
    skeleton = {"model": {"w": {"$array": "model.w", "kind": "numpy"}}}
    writer.write_part(0, [], skeleton)
    spec = ArraySpec("model.w", "F32", (2,))
    writer.write_part(1, [(spec, memoryview(struct.pack("<2f", 1, 2)))], skeleton, shared=["model.w"])
    writer.commit(2)
    assert lastgood("export", job.path, "--to", tmp_path / "out.safetensors").code == 0
    assert {n: a.tolist() for n, a in load_file(tmp_path / "out.safetensors").items()} == {"model.w": [1, 2]}


@pytest.mark.slow
def test_safetensors_needs_no_library_of_arrays(job, save_step, tmp_path):
    save_step(1)
    code = (
        "import sys\n"
        "for name in ('torch', 'safetensors', 'numpy', 'ml_dtypes'): sys.modules[name] = None\n"
        "from lastgood.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    to = str(tmp_path / "out.safetensors")
    subprocess.run([sys.executable, "-c", code, "export", str(job.path), "--to", to], check=True, timeout=180)
    assert load_file(to)["model.w"].tolist() == [1.0] * 8
    end = subprocess.run(
        [sys.executable, "-c", code, "export", str(job.path), "--to", str(tmp_path / "out.pt")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert end.returncode == 2
    assert "needs torch" in end.stderr


@pytest.mark.slow
class TestTorch:
    """With PyTorch, which the formats .pt and the directory need."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    @pytest.fixture
    def trained(self, torch, job):
        """A checkpoint of a model with tied weights and its optimizer, and both objects."""
        from lastgood.frameworks.torch_adapter import FRAMEWORK as TORCH

        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
        model[2].weight = model[0].weight
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        model(torch.randn(8, 4)).sum().backward()
        optimizer.step()
        save(job, 5, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, (TORCH, NUMPY))
        return model, optimizer

    def same(self, torch, a, b):
        if isinstance(a, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a, b)
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(self.same(torch, a[key], b[key]) for key in a)
        if isinstance(a, list | tuple):
            return (
                type(a) is type(b)
                and len(a) == len(b)
                and all(self.same(torch, x, y) for x, y in zip(a, b, strict=True))
            )
        return type(a) is type(b) and a == b

    def test_pt_has_the_structure_of_the_state_dicts(self, lastgood, torch, job, trained, tmp_path):
        model, optimizer = trained
        said = lastgood("export", job.path, "--to", tmp_path / "out.pt")
        assert said.code == 0, said.err
        found = torch.load(tmp_path / "out.pt", weights_only=True)
        assert found.keys() == {"model", "optimizer"}
        assert self.same(torch, dict(model.state_dict()), dict(found["model"]))
        assert self.same(torch, optimizer.state_dict(), found["optimizer"])
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        tied = [found["model"]["0.weight"], found["model"]["2.weight"]]
        assert tied[0].data_ptr() == tied[1].data_ptr()

    @pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
    def test_directory_for_distributed_checkpoint(self, lastgood, torch, job, trained, tmp_path):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        model, _ = trained
        answer = lastgood("export", job.path, "--to", tmp_path / "out", "--json").answer("export")
        assert (answer.format, answer.files) == ("dcp", [str(tmp_path / "out")])
        blank = {"model": {name: torch.zeros_like(value) for name, value in model.state_dict().items()}}
        dcp.load(blank, storage_reader=dcp.FileSystemReader(tmp_path / "out"), no_dist=True)
        assert self.same(torch, dict(model.state_dict()), blank["model"])
        dcp_to_torch_save(tmp_path / "out", tmp_path / "again.pt")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["again.pt", "job", "out"]

    def test_a_directory_is_never_replaced(self, lastgood, torch, job, trained, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").write_text("x")
        assert lastgood("export", job.path, "--to", tmp_path / "out", "--overwrite").code == 2
        assert os.listdir(tmp_path / "out") == ["mine"]
        assert lastgood("export", job.path, "--to", tmp_path / "out", "--format", "torch", "--overwrite").code == 2

    def test_safetensors_of_tensors(self, lastgood, torch, job, trained, tmp_path):
        from safetensors import safe_open

        model, _ = trained
        assert lastgood("export", job.path, "--to", tmp_path / "m.safetensors", "--entry", "model").code == 0
        with safe_open(tmp_path / "m.safetensors", "pt") as found:
            assert found.metadata()["format"] == "pt"
            assert torch.equal(found.get_tensor("model.0.weight"), model[0].weight)

    def test_tied_weights_from_safetensors_load_where_every_name_is_asked_for(
        self, lastgood, torch, job, trained, tmp_path
    ):
        from safetensors.torch import load_file as load_tensors

        model, _ = trained
        assert lastgood("export", job.path, "--to", tmp_path / "m.safetensors", "--entry", "model").code == 0
        found = load_tensors(tmp_path / "m.safetensors")
        model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in found.items()}, strict=True)

    def test_types_that_numpy_lacks(self, lastgood, torch, job, tmp_path):
        from safetensors.torch import load_file as load_tensors

        from lastgood.frameworks.torch_adapter import FRAMEWORK as TORCH

        tensors = {
            "b": torch.arange(4, dtype=torch.bfloat16),
            "e": torch.ones(3).to(torch.float8_e4m3fn),
            "c": torch.tensor([1 + 2j], dtype=torch.complex128),
        }
        save(job, 5, {"state": tensors}, (TORCH, NUMPY))
        assert lastgood("export", job.path, "--to", tmp_path / "out.safetensors").code == 0
        found = load_tensors(tmp_path / "out.safetensors")
        assert found["state.b"].tolist() == [0, 1, 2, 3]
        assert found["state.e"].dtype is torch.float8_e4m3fn
        assert lastgood("export", job.path, "--to", tmp_path / "out.pt").code == 0
        assert torch.load(tmp_path / "out.pt", weights_only=True)["state"]["c"].tolist() == [1 + 2j]
        said = lastgood("export", job.path, "--to", tmp_path / "out.npz")
        assert said.code == 68
        assert "BF16" in said.err
        assert not list(tmp_path.glob("out.npz*"))

    def test_values_that_loading_without_code_refuses_become_plain(self, lastgood, torch, job, tmp_path):
        tree = {
            "state": {
                "scalar": np.float64(0.5),
                "dtype": np.dtype("<f4"),
                "recent": deque([1, 2], maxlen=5),
                "names": frozenset({"a"}),
                "ordered": OrderedDict(a=(1, b"x", 1j, None)),
                "array": np.arange(3),
            }
        }
        save(job, 5, tree)
        said = lastgood("export", job.path, "--to", tmp_path / "out.pt", "--json")
        found = torch.load(tmp_path / "out.pt", weights_only=True)["state"]
        assert found.pop("array").tolist() == [0, 1, 2]
        assert found == {
            "scalar": 0.5,
            "dtype": "<f4",
            "recent": [1, 2],
            "names": {"a"},
            "ordered": {"a": (1, b"x", 1j, None)},
        }
        assert said.answer("export").changed == [
            "state.scalar: NumPy float64 became float",
            "state.dtype: NumPy dtype became text",
            "state.recent: deque became list",
            "state.names: frozenset became set",
        ]

    def test_a_type_that_torch_lacks(self, lastgood, torch, job, tmp_path):
        save(job, 5, {"state": np.array(["a"])})
        said = lastgood("export", job.path, "--to", tmp_path / "out.pt")
        assert said.code == 68
        assert "state: torch has no type" in said.err
        assert os.listdir(tmp_path) == ["job"]

    def test_arrays_of_the_other_byte_order_become_tensors_of_this_one(self, lastgood, torch, job, tmp_path):
        save(job, 5, {"sky": np.array([1.5, -2.0], ">f8"), "counts": np.array([3], ">i2"), "x": np.ones(1)})
        said = lastgood("export", job.path, "--to", tmp_path / "out.pt", "--json")
        assert said.code == 0, said.err
        found = torch.load(tmp_path / "out.pt", weights_only=True)
        assert (found["sky"].tolist(), found["counts"].tolist()) == ([1.5, -2.0], [3])
        assert (found["sky"].dtype, found["counts"].dtype) == (torch.float64, torch.int16)
        assert said.answer("export").changed == ["sky: NumPy >f8 became <f8", "counts: NumPy >i2 became <i2"]

    @pytest.mark.parametrize("kind", [">U1", "<U1", ">M8[D]"])
    def test_a_type_that_torch_lacks_is_named_in_either_byte_order(self, lastgood, torch, job, tmp_path, kind):
        save(job, 5, {"state": np.zeros(1, kind)})
        said = lastgood("export", job.path, "--to", tmp_path / "out.pt")
        assert said.code == 68
        assert "state: torch has no type" in said.err
