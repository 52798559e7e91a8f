"""Files of results held against each other: every kind, damage of every kind, and what is no difference."""

import csv
import gzip
import io
import json
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from lastgood.core.errors import DamagedError, PermissionDeniedError, StorageError, UsageError
from lastgood.prove.arrays import Numbers
from lastgood.prove.difference import Comparison, Tolerance
from lastgood.prove.files import KINDS, Rule, compare_files, kind_of, read_results

ARRAY = np.random.default_rng(0).normal(size=(5, 4))
OTHER = ARRAY.copy()
OTHER[2, 3] = np.nextafter(OTHER[2, 3], 9)
VALUE, CHANGED = float(ARRAY[2, 3]), float(OTHER[2, 3])


def write_csv(path: Path, array: Any) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["step", "loss"])
        rows.writerows([i, repr(float(x))] for i, x in enumerate(array.ravel()))


def write_mrc(path: Path, array: Any, label: bytes = b"2026-01-01") -> None:
    header = bytearray(1024)
    struct.pack_into("<4i", header, 0, 4, 5, 1, 2)
    struct.pack_into("<6f", header, 40, 1, 1, 1, 90, 90, 90)
    header[208:216] = b"MAP DD\0\0"
    header[224 : 224 + len(label)] = label
    path.write_bytes(bytes(header) + array.astype("<f4").tobytes())


def write_foam(path: Path, array: Any) -> None:
    path.write_bytes(
        b'FoamFile\n{\n version 2.0;\n format binary;\n arch "LSB;label=32;scalar=64";\n class volVectorField;\n}\n'
        b"internalField nonuniform List<scalar> \n20\n(" + array.tobytes() + b")\n;\n"
        b"boundaryField\n{\n  inlet\n  {\n    type fixedValue;\n    value nonuniform List<scalar> 2("
        + array[:1, :2].tobytes() + b")\n;\n  }\n}\n"
    )  # fmt: skip


def write_dump(path: Path, array: Any) -> None:
    with path.open("w") as file:
        for step in (0, 10):
            file.write(f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n20\nITEM: ATOMS id x\n")
            file.writelines(f"{i} {x!r}\n" for i, x in enumerate(array.ravel().tolist(), 1))


WRITERS: dict[str, tuple[str, Callable[[Path, Any], None]]] = {
    "a.npy": ("npy", np.save),
    "a.npz": ("npz", lambda path, array: np.savez(path, w=array, n=np.arange(3))),
    "compressed.npz": ("npz", lambda path, array: np.savez_compressed(path, w=array, n=np.arange(3))),
    "a.safetensors": ("safetensors", lambda path, array: save_file({"w": array, "z": np.zeros(0)}, path)),
    "a.json": ("json", lambda path, array: _write(path, json.dumps({"r": [1, {"w": array.tolist()}], "x": float("nan")}))),
    "a.jsonl": ("jsonl", lambda path, array: _write(path, "".join(f'{{"w": {x!r}}}\n' for x in array.ravel().tolist()))),
    "a.csv": ("csv", write_csv),
    "a.tsv": ("csv", lambda path, array: np.savetxt(path, array, "%.17g", delimiter="\t")),
    "a.txt": ("text", lambda path, array: np.savetxt(path, array, "%.17g", header="x y z u")),
    "a.txt.gz": ("text", lambda path, array: np.savetxt(path, array, "%.17g", header="x y z u")),
    "a.mrcs": ("mrc", write_mrc),
    "U": ("openfoam", write_foam),
    "dump.lammpstrj": ("frames", write_dump),
    "a.raw": ("bytes", lambda path, array: _write(path, array.tobytes())),
}  # fmt: skip


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture(params=list(WRITERS))
def kind(request: pytest.FixtureRequest) -> tuple[str, str, Callable[[Path, Any], None]]:
    name: str = request.param
    return (name, *WRITERS[name])


def written(root: Path, side: str, name: str, write: Callable[[Path, Any], None], array: Any) -> Path:
    path = root / side / name
    path.parent.mkdir(exist_ok=True)
    write(path, array)
    return path


def test_a_kind_is_known_by_its_content(tmp_path: Path, kind: Any) -> None:
    name, expected, write = kind
    assert kind_of(written(tmp_path, "a", name, write, ARRAY)) == expected


def test_equal_content_is_identical_whenever_it_was_written(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, write = kind
    left = written(tmp_path, "left", name, write, ARRAY)
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)
    right = written(tmp_path, "right", name, write, ARRAY)
    os.utime(right, (1, 1))
    found = compare_files(left, right)
    assert (found.kind, found.differing, found.first) == ("identical", 0, None)
    assert found.compared >= 5


def test_one_changed_number_is_found_and_named(tmp_path: Path, kind: Any) -> None:
    name, expected, write = kind
    other = OTHER.astype("f4") if expected == "mrc" else OTHER
    if expected == "mrc":
        other[2, 3] *= 1 + 3e-7
    left, right = (written(tmp_path, side, name, write, array) for side, array in (("left", ARRAY), ("right", other)))
    found = compare_files(left, right, where=name)
    assert found.kind == "differs"
    assert found.first is not None
    assert found.first.where == name
    if expected in ("npy", "npz", "safetensors", "json", "openfoam"):
        assert (found.first.ulp, found.first.left, found.first.right) == (1, repr(VALUE), repr(CHANGED))
    if expected != "bytes":
        assert compare_files(left, right, Rule(Tolerance(relative=1e-6))).kind == "within"
        assert compare_files(left, right, Rule(Tolerance(absolute=1e-30))).kind == "differs"


PLACES = {
    "a.npy": "array[2, 3]",
    "a.npz": "w[2, 3]",
    "compressed.npz": "w[2, 3]",
    "a.safetensors": "w[2, 3]",
    "a.json": "r[1].w[2][3]",
    "a.jsonl": "line 12.w",
    "a.csv": "row 12, loss",
    "a.tsv": "row 2, column 4",
    "a.txt": "line 4, number 4",
    "a.txt.gz": "line 4, number 4",
    "a.mrcs": "grid[0, 2, 3]",
    "U": "internalField[11]",
    "dump.lammpstrj": "atom 12.x",
    "a.raw": "byte 94",
}


def test_the_place_of_a_difference_is_one_that_people_find(tmp_path: Path, kind: Any) -> None:
    name, _, write = kind
    left, right = (written(tmp_path, s, name, write, array) for s, array in (("left", ARRAY), ("right", ARRAY + 0)))
    changed = ARRAY.copy()
    changed[2, 3] *= 2
    write(right, changed)
    found = compare_files(left, right)
    assert found.first is not None
    assert found.first.what == PLACES[name]


@pytest.mark.parametrize("damage", ["empty", "cut", "zeroed"])
def test_a_damaged_result_of_the_other_run_is_a_difference_and_no_crash(tmp_path: Path, kind: Any, damage: str) -> None:
    name, _, write = kind
    left, right = (written(tmp_path, side, name, write, ARRAY) for side in ("left", "right"))
    data = right.read_bytes()
    right.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "zeroed": bytes(len(data))}[damage])
    found = compare_files(left, right)
    assert found.kind in ("differs", "not comparable")
    assert found.first is not None or found.notes
    back = compare_files(right, left)
    assert back.kind in ("differs", "not comparable")


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(WRITERS)), st.integers(0, 10**6), st.integers(1, 255), st.booleans())
def test_no_damage_passes_for_equal_where_it_changes_what_is_read(
    tmp_path_factory: Any, name: str, at: int, by: int, is_cut: bool
) -> None:
    root = tmp_path_factory.mktemp("damage")
    write = WRITERS[name][1]
    left, right = (written(root, side, name, write, ARRAY) for side in ("left", "right"))
    data = bytearray(right.read_bytes())
    at %= len(data)
    if is_cut:
        del data[at:]
    else:
        data[at] ^= by
    right.write_bytes(data)
    found = compare_files(left, right)
    assert isinstance(found, Comparison)
    # What is cut off a text may be the last end of a line alone.
    is_less = is_cut and data.rstrip() != left.read_bytes().rstrip()
    if name == "a.raw" or (is_less and not name.endswith((".npz", ".gz"))):
        assert found.kind != "identical"


def test_times_in_archives_are_no_difference(tmp_path: Path) -> None:
    for side, year in (("left", 1980), ("right", 2026)):
        with zipfile.ZipFile(tmp_path / f"{side}.npz", "w") as archive:
            data = io.BytesIO()
            np.save(data, ARRAY)
            archive.writestr(zipfile.ZipInfo("w.npy", (year, 1, 1, 0, 0, 0)), data.getvalue())
    assert (tmp_path / "left.npz").read_bytes() != (tmp_path / "right.npz").read_bytes()
    assert compare_files(tmp_path / "left.npz", tmp_path / "right.npz").kind == "identical"
    for side, seconds in (("left", 1), ("right", 2)):
        (tmp_path / f"{side}.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n", mtime=seconds))
    assert compare_files(tmp_path / "left.csv.gz", tmp_path / "right.csv.gz").kind == "identical"


def test_dates_in_headers_of_maps_are_no_difference(tmp_path: Path) -> None:
    write_mrc(tmp_path / "left.mrc", ARRAY, b"2026-01-01 10:00:00")
    write_mrc(tmp_path / "right.mrc", ARRAY, b"2026-02-02 11:11:11")
    assert compare_files(tmp_path / "left.mrc", tmp_path / "right.mrc").kind == "identical"


def test_arrays_of_objects_are_refused_and_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "a.npy", np.array([Trap()], object), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1] + b"x")
    found = compare_files(tmp_path / "a.npy", tmp_path / "b.npy")
    assert found.first is not None
    assert (found.kind, found.first.reason[:11]) == ("differs", "other bytes")
    assert "would run code" in found.first.reason
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(Trap()))
    (tmp_path / "d.pkl").write_bytes(pickle.dumps(Trap(), protocol=2))
    assert compare_files(tmp_path / "c.pkl", tmp_path / "d.pkl").kind == "differs"
    assert not (tmp_path / "sprung").exists()


def test_a_file_that_cannot_be_looked_into_is_equal_where_its_bytes_are(tmp_path: Path) -> None:
    for side in ("left", "right"):
        np.save(tmp_path / f"{side}.npy", np.array([{}], object), allow_pickle=True)
    found = compare_files(tmp_path / "left.npy", tmp_path / "right.npy")
    assert found.kind == "identical"
    assert "compared by its bytes" in found.notes[0]


UNREADABLE = {
    "objects.npz": [np.array([{"a": 1}], object), np.array([{"a": 2}], object)],
    "lines.json": ['{"a": 1}\n{"b": 1}\n', '{"a": 1}\n{"b": 2}\n'],
    "long.csv": ["a,b\n1," + "9" * 200_000 + "1\n", "a,b\n1," + "9" * 200_000 + "2\n"],
    "plain.txt.gz": ["not packed 1\n", "not packed 2\n"],
}


@pytest.mark.parametrize("name", list(UNREADABLE))
def test_files_that_cannot_be_looked_into_differ_where_their_bytes_do(tmp_path: Path, name: str) -> None:
    for side, content in zip(("left", "same", "right"), (UNREADABLE[name][0], *UNREADABLE[name]), strict=True):
        (tmp_path / side).mkdir()
        if name.endswith(".npz"):
            np.savez(tmp_path / side / name, w=content, allow_pickle=True)
        else:
            _write(tmp_path / side / name, content)
    left, same, right = (tmp_path / side / name for side in ("left", "same", "right"))
    assert compare_files(left, same).kind == "identical"
    found = compare_files(left, right, where=name)
    assert found.first is not None
    assert (found.kind, found.first.where) == ("differs", name)
    assert found.first.reason.startswith("other bytes, of which nothing more can be said: ")


def test_of_two_files_that_hold_nothing_nothing_is_compared(tmp_path: Path) -> None:
    for side in ("left", "right"):
        (tmp_path / side).write_text("")
    found = compare_files(tmp_path / "left", tmp_path / "right", where="err.log")
    assert (found.kind, found.compared, found.notes) == ("identical", 0, ("err.log holds nothing in both",))


def test_an_array_that_only_one_file_has_is_a_difference(tmp_path: Path) -> None:
    np.savez(tmp_path / "left.npz", a=ARRAY, b=ARRAY)
    np.savez(tmp_path / "right.npz", a=ARRAY)
    found = compare_files(tmp_path / "left.npz", tmp_path / "right.npz")
    assert (found.kind, str(found.first)) == ("differs", "b: float64[5, 4], only in the undisturbed run")


def test_spaces_are_no_difference_between_lines_and_words_are(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("energy   =  -1.50 eV\nstate ok\n")
    (tmp_path / "right").write_text("energy = -1.25 eV\nstate bad\n")
    found = compare_files(tmp_path / "left", tmp_path / "right")
    assert str(found.first) == "line 1: -1.50 against -1.25, absolute 0.25, relative 0.167"
    assert (found.differing, found.compared) == (2, 2)


def test_lines_that_may_differ_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("Date: 2026-01-01\nx 1\n")
    (tmp_path / "right").write_text("Date: 2026-02-02\nx 1\n")
    told = compare_files(tmp_path / "left", tmp_path / "right")
    assert told.kind == "differs"
    assert "holds a time" in " ".join(told.notes)
    found = compare_files(tmp_path / "left", tmp_path / "right", Rule(leave_out=("^Date:",)))
    assert (found.kind, found.compared) == ("identical", 1)
    assert "1 lines were left out" in " ".join(found.notes)


def test_lines_that_only_one_run_has_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("".join(f"{i}\n" for i in range(100)))
    (tmp_path / "right").write_text("".join(f"{i}\n" for i in range(60)))
    found = compare_files(tmp_path / "left", tmp_path / "right")
    assert (found.differing, str(found.first)) == (1, "line 61: the other run has no more")


def test_a_frame_that_was_written_twice_counts_once_and_atoms_may_change_places(tmp_path: Path) -> None:
    frame = "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ATOMS\n2\nITEM: ATOMS id x\n{}\n{}\n"
    (tmp_path / "left").write_text(frame.format(0, "1 0.5", "2 0.25") + frame.format(10, "1 0.75", "2 0.125"))
    right = frame.format(0, "2 0.25", "1 0.5") + frame.format(10, "1 9", "2 9") + frame.format(10, "1 0.75", "2 0.125")
    (tmp_path / "right").write_text(right)
    found = compare_files(tmp_path / "left", tmp_path / "right")
    assert found.kind == "identical"
    assert "the other run wrote 1 frames twice" in found.notes[0]


def test_a_frame_that_only_one_run_has_is_a_difference(tmp_path: Path) -> None:
    frame = "ITEM: TIMESTEP\n{}\nITEM: ATOMS id x\n1 0.5\n"
    (tmp_path / "left").write_text(frame.format(0) + frame.format(10))
    (tmp_path / "right").write_text(frame.format(0))
    assert (
        str(compare_files(tmp_path / "left", tmp_path / "right").first) == "step 10, frame: only in the undisturbed run"
    )


def test_quoted_cells_and_other_separators_are_read(tmp_path: Path) -> None:
    (tmp_path / "left.csv").write_text('name;loss\n"a;b";0.5\n')
    (tmp_path / "right.csv").write_text('name;loss\n"a;b";0.25\n')
    assert str(compare_files(tmp_path / "left.csv", tmp_path / "right.csv").first).startswith(
        "row 1, loss: 0.5 against 0.25"
    )


def test_a_table_longer_than_one_look_is_read_whole(tmp_path: Path) -> None:
    rows = [f"{i},{i / 7!r}\n" for i in range(20_000)]
    (tmp_path / "left.csv").write_text("step,loss\n" + "".join(rows))
    rows[15_000] = "15000,1.0\n"
    (tmp_path / "right.csv").write_text("step,loss\n" + "".join(rows))
    found = compare_files(tmp_path / "left.csv", tmp_path / "right.csv")
    assert (found.compared, found.differing) == (40_002, 1)
    assert str(found.first).startswith("row 15001, loss: 2142.8571428571427 against 1.0")


def test_bytes_behind_the_end_are_a_difference_of_size(tmp_path: Path) -> None:
    (tmp_path / "left.bin").write_bytes(b"\0\1\2" * 10)
    (tmp_path / "right.bin").write_bytes(b"\0\1\2" * 11)
    found = compare_files(tmp_path / "left.bin", tmp_path / "right.bin")
    assert "another size: 30 against 33 bytes, and one is the beginning of the other" in str(found.first)


def test_one_file_for_both_runs_is_no_proof(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAY)
    found = compare_files(tmp_path / "a.npy", tmp_path / "a.npy")
    assert found.compared == 0
    assert "the same file" in found.notes[0]


def test_a_kind_that_is_none_is_a_wrong_call(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(UsageError, match="no kind of file"):
        read_results(tmp_path / "a", "hdf")
    assert "npz" in KINDS


def test_what_is_read_has_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=ARRAY)
    read = read_results(tmp_path / "a.npz")
    assert isinstance(read["w"], Numbers)
    assert np.array_equal(read["w"].whole(), ARRAY)
    with pytest.raises(DamagedError, match="not an array"):
        read_results(tmp_path / "a.npz", "npy")


def test_a_file_that_may_not_be_read_is_said_to_be(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "a.npy"
    np.save(path, ARRAY)
    path.chmod(0)
    with pytest.raises(PermissionDeniedError):
        read_results(path)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        read_results(tmp_path / "missing.npy")


def test_a_header_that_lies_about_its_size_is_damage(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ARRAY)
    data = (tmp_path / "a.npy").read_bytes().replace(b"(5, 4)", b"(9, 9)")
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(DamagedError, match="cut off"):
        read_results(tmp_path / "a.npy")


def test_json_that_nests_too_deep_is_damage_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(DamagedError, match="not JSON"):
        read_results(tmp_path / "a.json")


def test_a_pattern_that_is_none_is_a_wrong_call(tmp_path: Path) -> None:
    for side in ("left", "right"):
        (tmp_path / side).write_text(f"{side}\n")
    with pytest.raises(UsageError, match="no regular expression"):
        compare_files(tmp_path / "left", tmp_path / "right", Rule(leave_out=("(",)))


def test_a_packed_array_is_compared_by_its_unpacked_bytes(tmp_path: Path) -> None:
    for side, seconds in (("left", 1), ("right", 2)):
        data = io.BytesIO()
        np.save(data, ARRAY)
        (tmp_path / f"{side}.npy.gz").write_bytes(gzip.compress(data.getvalue(), mtime=seconds))
    assert kind_of(tmp_path / "left.npy.gz") == "bytes"
    assert compare_files(tmp_path / "left.npy.gz", tmp_path / "right.npy.gz").kind == "identical"


def test_without_torch_its_files_are_compared_by_the_bytes_of_their_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lastgood.frameworks.torch_files", None)
    for side, weight in (("left", b"1234"), ("same", b"1234"), ("other", b"1235")):
        with zipfile.ZipFile(tmp_path / f"{side}.pt", "w") as archive:
            archive.writestr(f"{side}/data.pkl", b"pickle")
            archive.writestr(f"{side}/data/0", weight)
    same = compare_files(tmp_path / "left.pt", tmp_path / "same.pt")
    assert same.kind == "identical"
    assert "torch, which is not installed" in same.notes[0]
    other = compare_files(tmp_path / "left.pt", tmp_path / "other.pt")
    assert other.first is not None
    assert other.first.what == "data/0[3]"


def test_the_missing_one_of_two_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "left").write_text("x")
    with pytest.raises(StorageError, match="right"):
        compare_files(tmp_path / "left", tmp_path / "right")


STARTS = [
    b"",
    b"\x93NUMPY\x01\x00",
    b"PK\x03\x04",
    b"ITEM: TIMESTEP\n",
    b"FoamFile format binary; List<vector> 9(",
    b"{",
    b"a,b\n",
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([kind for kind in KINDS if kind != "torch"]),
    st.sampled_from(STARTS),
    st.binary(max_size=200),
    st.binary(max_size=60),
)
def test_whatever_is_in_a_file_there_is_an_answer(
    tmp_path_factory: Any, kind: str, start: bytes, data: bytes, more: bytes
) -> None:
    root = tmp_path_factory.mktemp("any")
    (root / "left").write_bytes(start + data)
    (root / "right").write_bytes(start + more)
    for of_kind in (kind, "bytes", ""):
        found = compare_files(root / "left", root / "right", Rule(kind=of_kind))
        assert found.kind in ("identical", "differs", "not comparable")
        if of_kind == "bytes":
            assert (found.kind == "identical") == (data == more)
            assert bool(found.compared) == bool(start + data + more)


def test_names_that_are_no_text_are_damage(tmp_path: Path) -> None:
    save_file({"weights": ARRAY}, tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "a.safetensors").write_bytes(data.replace(b"weights", b"weight\xa0"))
    with pytest.raises(DamagedError, match="not a table of arrays"):
        read_results(tmp_path / "a.safetensors")
    np.savez(tmp_path / "a.npz", wäights=ARRAY)
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(data.replace("wä".encode(), b"w\xff\xff"))
    with pytest.raises(DamagedError, match="not a whole archive"):
        read_results(tmp_path / "a.npz")
