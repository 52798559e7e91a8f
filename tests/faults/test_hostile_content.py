"""Content that was made to mislead, under checksums that fit: refused, quickly, with bounded memory."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults import forge, states
from faults.nursery import Nursery
from lastgood.store import attempts, jobdir
from lastgood.store.jobdir import JobDirectory

pytestmark = pytest.mark.slow

Forge = Callable[[Path], object]


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    job = jobdir.create_job(tmp_path / "job")
    attempts.claim_attempt(job, "")
    states.write(job, 10, 1)
    states.write(job, 20, 1)
    return job


def _setting(*path: str | int, to: Any) -> forge.Edit:
    def edit(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return edit


def _lacking(*path: str | int) -> forge.Edit:
    def edit(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return edit


def _text(file: str, text: bytes) -> Forge:
    return lambda directory: (directory / file).write_bytes(forge.seal_text(text))


def _manifest(edit: forge.Edit) -> Forge:
    return lambda directory: forge.forge(directory, manifest=edit)


def _part(edit: forge.Edit) -> Forge:
    return lambda directory: forge.forge(directory, part=edit)


def _header(edit: Callable[[dict[str, Any]], object]) -> Forge:
    """Alter the table of arrays; what the edit returns, if anything, takes its place (bytes as they are)."""

    def make(directory: Path) -> None:
        header, payload = forge.split_data((directory / "rank-00000.safetensors").read_bytes())
        replaced = edit(header)
        text = replaced if isinstance(replaced, bytes) else json.dumps(replaced or header).encode()
        forge.forge(directory, data=forge.with_header(text, payload))

    return make


def _data(edit: Callable[[bytes], bytes]) -> Forge:
    return lambda directory: forge.forge(directory, data=edit((directory / "rank-00000.safetensors").read_bytes()))


def _a_hole(directory: Path) -> None:
    """As many bytes as are claimed, and none of them written: a sparse file."""
    size = 2**40

    def claim(document: dict[str, Any]) -> None:
        document["data"] |= {"bytes": size, "block_bytes": 2**26, "xxh3": "0" * 16 * (size // 2**26)}

    os.truncate(directory / "rank-00000.safetensors", size)
    part = directory / "rank-00000.json"
    forge.reseal(part, claim)
    forge.forge(directory)


DEEP = b"[" * 100_000 + b"]" * 100_000
MANY = [{"rank": rank, "bytes": 100, "xxh3": "0" * 16, "data_bytes": 0} for rank in range(1_000_000)]
MANIFEST_MEMBERS = ["format", "job", "step", "attempt", "created", "world_size", "parts"]
PART_MEMBERS = ["format", "job", "step", "attempt", "rank", "data", "entries"]
WRONG: list[Any] = [None, -1, "x", [], {}, [[]], 10**30, 1.5, True]

HOSTILE: dict[str, Forge] = {
    # documents that are none
    "manifest: not JSON": _text("manifest.json", b"\x00\x01 no json }"),
    "manifest: a list": _text("manifest.json", b"[1, 2, 3}"),
    "manifest: empty object": _text("manifest.json", b'{"a": 1}'),
    "manifest: not UTF-8": _text("manifest.json", b'{"format": 1, "job": "\xff\xfe"}'),
    "manifest: nested deeply": _text("manifest.json", b'{"config": {"a": ' + DEEP + b"}}"),
    "manifest: number with 10,000 digits": _text("manifest.json", b'{"format": ' + b"9" * 10_000 + b"}"),
    "manifest: a lone surrogate": _text("manifest.json", b'{"format": 1, "job": "\\ud800"}'),
    "part: nested deeply": _part(_setting("entries", "values", to=json.loads(b"[" * 400 + b"]" * 400))),
    # members that lack or have a wrong type
    **{f"manifest: without {m}": _manifest(_lacking(m)) for m in MANIFEST_MEMBERS},
    **{f"part: without {m}": _part(_lacking(m)) for m in PART_MEMBERS},
    **{f"part: data without {m}": _part(_lacking("data", m)) for m in ("file", "bytes", "block_bytes", "xxh3")},
    **{
        f"manifest: {m} is {value!r}": _manifest(_setting(m, to=value))
        for m in MANIFEST_MEMBERS
        for value in WRONG
        if not (m == "created" and type(value) in (int, float))
    },
    **{
        f"part: {m} is {value!r}": _part(_setting(m, to=value))
        for m in PART_MEMBERS
        for value in WRONG
        if not (m == "entries" and value == {})
    },
    **{
        f"part: data.{m} is {value!r}": _part(_setting("data", m, to=value))
        for m in ("file", "bytes", "block_bytes", "xxh3")
        for value in WRONG
    },
    # numbers that are too large, or of another version
    "manifest: of a newer format": _manifest(_setting("format", to=3)),
    "manifest: of format 0": _manifest(_setting("format", to=0)),
    "part: of a newer format": _part(_setting("format", to=3)),
    "manifest: a million ranks claimed": _manifest(_setting("world_size", to=1_000_000)),
    "manifest: a million ranks listed": _manifest(lambda d: d.update(world_size=1_000_000, parts=MANY)),
    "manifest: 10^18 ranks": _manifest(_setting("world_size", to=10**18)),
    "manifest: no ranks": _manifest(lambda d: d.update(world_size=0, parts=[])),
    "manifest: ranks in another order": _manifest(lambda d: d["parts"].reverse()),
    "manifest: one rank twice": _manifest(_setting("parts", 1, "rank", to=0)),
    "manifest: a part of 10^18 bytes": _manifest(_setting("parts", 0, "bytes", to=10**18)),
    "manifest: a part of no bytes": _manifest(_setting("parts", 0, "bytes", to=0)),
    "manifest: data of 10^18 bytes": _manifest(_setting("parts", 0, "data_bytes", to=10**18)),
    "manifest: data of -1 bytes": _manifest(_setting("parts", 0, "data_bytes", to=-1)),
    "manifest: a checksum of another form": _manifest(_setting("parts", 0, "xxh3", to="A" * 16)),
    "part and manifest: data of 10^18 bytes": _part(
        lambda d: d["data"].update(bytes=10**18, block_bytes=2**26, xxh3="0" * 16 * 1000)
    ),
    "part: blocks of one byte": _part(_setting("data", "block_bytes", to=1)),
    "part: blocks of 10^18 bytes": _part(_setting("data", "block_bytes", to=10**18)),
    "part: one checksum too many": _part(lambda d: d["data"].update(xxh3=d["data"]["xxh3"] + "0" * 16)),
    "part: checksums that are no hexadecimal": _part(
        lambda d: d["data"].update(xxh3="\u00e9" * len(d["data"]["xxh3"]))
    ),
    "data: a terabyte that was never written": _a_hole,
    # names
    **{
        f"part: names the file {name!r}": _part(_setting("data", "file", to=name))
        for name in ("../../job.json", "/etc/passwd", "rank-00001.safetensors", "", "rank-00000.safetensors\0", ".")
    },
    "part: of another rank": _part(_setting("rank", to=1)),
    "part: of another step": _part(_setting("step", to=10)),
    "part: of another job": _part(_setting("job", to="0123456789abcdef")),
    "manifest: of another job": _manifest(_setting("job", to="0123456789abcdef")),
    "manifest: of another step": _manifest(_setting("step", to=10)),
    # the header of the data
    "header: arrays overlap": _header(_setting("count", "data_offsets", to=[4, 12])),
    "header: a hole": _header(_setting("count", "data_offsets", to=[16, 24])),
    "header: an array is missing": _header(_lacking("count")),
    "header: negative offsets": _header(_setting("count", "data_offsets", to=[-8, 0])),
    "header: ends before it begins": _header(_setting("count", "data_offsets", to=[8, 0])),
    "header: huge offsets": _header(_setting("count", "data_offsets", to=[10**18, 10**18 + 8])),
    "header: offsets of 4,000 digits": _header(_setting("count", "data_offsets", to=[10**4000, 10**4000 + 8])),
    "header: offsets that are no numbers": _header(_setting("count", "data_offsets", to=["0", "8"])),
    "header: three offsets": _header(_setting("count", "data_offsets", to=[0, 8, 16])),
    "header: unknown type": _header(_setting("count", "dtype", to="F128")),
    "header: a type that is no text": _header(_setting("count", "dtype", to=64)),
    "header: negative extent": _header(_setting("count", "shape", to=[-1])),
    "header: two negative extents": _header(_setting("model.w", "shape", to=[-3, -1000])),
    "header: a shape that overflows": _header(_setting("count", "shape", to=[2**62, 2**62, 2**62])),
    "header: an extent of 4,000 digits": _header(_setting("count", "shape", to=[10**4000])),
    "header: 100,000 dimensions": _header(_setting("count", "shape", to=[2**60] * 100_000)),
    "header: a shape that contradicts the size": _header(_setting("model.w", "shape", to=[3001])),
    "header: an unknown member": _header(_setting("count", "stride", to=[1])),
    "header: an array that is a number": _header(_setting("count", to=7)),
    "header: a list": _header(lambda h: b"[]"),
    "header: empty": _header(lambda h: b"{}"),
    "header: not JSON": _header(lambda h: b"{{{{"),
    "header: not UTF-8": _header(lambda h: json.dumps(h).encode().replace(b"count", b"\xff\xfe\xff\xfe\xff")),
    "header: a lone surrogate": _header(lambda h: json.dumps(h).encode().replace(b"count", b"\\ud800")),
    "header: nested deeply": _header(lambda h: b'{"count": ' + DEEP + b"}"),
    "header: metadata nested deeply": _header(
        lambda h: json.dumps(h).encode()[:-1] + b', "__metadata__": {"a": ' + DEEP + b"}}"
    ),
    "header: one name twice": _header(lambda h: json.dumps(h).encode()[:-1] + b', "count": ' + _entry(h) + b"}"),
    "header: one member twice": _header(
        lambda h: json.dumps(h).encode().replace(b'"dtype"', b'"dtype": "U8", "dtype"')
    ),
    "header: a million arrays outside the file": _header(lambda h: b"{" + _many(b"[10000000, 10000000]") + b"}"),
    "header: of no length": _data(lambda d: bytes(8) + d[8:]),
    "header: longer than the file": _data(lambda d: len(d).to_bytes(8, "little") + d[8:]),
    "header: of 2^64 - 1 bytes": _data(lambda d: b"\xff" * 8 + d[8:]),
    "data: ten bytes": _data(lambda d: d[:10]),
    "data: more than the arrays": _data(lambda d: d + b"x"),
    "data: less than the arrays": _data(lambda d: d[:-1]),
}


def _many(offsets: bytes) -> bytes:
    return b", ".join(b'"%d": {"dtype": "U8", "shape": [0], "data_offsets": %b}' % (i, offsets) for i in range(10**6))


def _entry(header: dict[str, Any]) -> bytes:
    return json.dumps(header["count"]).encode()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(job: JobDirectory, nursery: Nursery, name: str) -> None:
    HOSTILE[name](job.checkpoints / "000000000020-0001")
    assert nursery.run("judge", job=str(job.path), good=10) == 0


def test_a_million_empty_arrays_are_read_with_bounded_memory(job: JobDirectory, nursery: Nursery) -> None:
    """Whole and pointless: neither refused nor a danger."""
    directory = job.checkpoints / "000000000020-0001"
    _header(lambda h: json.dumps(h).encode()[:-1] + b", " + _many(b"[0, 0]") + b"}")(directory)
    assert nursery.run("judge_size", job=str(job.path), name=directory.name, arrays=10**6 + 2) == 0
