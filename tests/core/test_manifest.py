"""Manifests and parts are checked against where they were found and what vouches for them."""

import msgspec
import pytest

from lastgood.core import manifest as m
from lastgood.core.errors import DamagedError, FormatVersionError
from lastgood.core.manifest import Constants, ConstantsRef, DataFile, Manifest, Part, PartRef

HEX = "0123456789abcdef"
GOOD = Manifest(1, "job", 1200, 3, 0.0, 2, [PartRef(0, 100, HEX, 5000), PartRef(1, 100, HEX, 5000)])
PART = Part(1, "job", 1200, 3, 1, DataFile("rank-00001.safetensors", 5000, 4096, HEX * 2), {})
NAME = "000000001200-0003"


def test_a_consistent_one_passes():
    m.check_manifest(GOOD, NAME, "job")
    m.check_manifest(GOOD, NAME, None)
    m.check_part(PART, GOOD, 1)
    assert (GOOD.name, GOOD.bytes) == (NAME, 10200)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"step": 1201}, "copied from another"),
        ({"attempt": 4}, "copied from another"),
        ({"job": "other"}, "belongs to job other"),
        ({"world_size": 0, "parts": []}, "claims 0 ranks"),
        ({"world_size": 10**18}, "claims"),
        ({"world_size": 3}, "lists 2 parts for 3 ranks"),
        ({"parts": [PartRef(1, 100, HEX, 5000), PartRef(0, 100, HEX, 5000)]}, "lists"),
        ({"parts": [PartRef(0, 0, HEX, 5000), PartRef(1, 100, HEX, 5000)]}, "impossible entry for rank 0"),
        ({"parts": [PartRef(0, 100, HEX, 5000), PartRef(1, 10**18, HEX, 5000)]}, "impossible entry for rank 1"),
        ({"parts": [PartRef(0, 100, HEX, 5000), PartRef(1, 100, HEX, -1)]}, "impossible"),
        ({"parts": [PartRef(0, 100, HEX, 5000), PartRef(1, 100, HEX.upper(), 5000)]}, "impossible"),
        ({"parts": [PartRef(0, 100, HEX, 5000), PartRef(1, 100, "", 5000)]}, "impossible"),
    ],
)
def test_a_manifest_that_does_not_fit_is_damaged(change, word):
    with pytest.raises(DamagedError, match=word):
        m.check_manifest(msgspec.structs.replace(GOOD, **change), NAME, "job")


def with_data(**change):
    return {"data": msgspec.structs.replace(PART.data, **change)}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"job": "other"}, "belongs to"),
        ({"step": 1}, "belongs to rank 1 of step 1"),
        ({"attempt": 1}, "belongs to"),
        ({"rank": 0}, "belongs to rank 0"),
        (with_data(file="rank-00000.safetensors"), "only rank-00001.safetensors is allowed"),
        (with_data(file="../../etc/passwd"), "is allowed"),
        (with_data(bytes=4999), "disagree on the size"),
        (with_data(block_bytes=0), "blocks of 0 bytes"),
        (with_data(block_bytes=-4096), "blocks of"),
        (with_data(block_bytes=2**40), "blocks of"),
        (with_data(xxh3=HEX), "1 checksums for 2 blocks"),
        (with_data(xxh3=HEX * 3), "3 checksums for 2 blocks"),
    ],
)
def test_a_part_that_does_not_fit_its_manifest_is_damaged(change, word):
    with pytest.raises(DamagedError, match=word):
        m.check_part(msgspec.structs.replace(PART, **change), GOOD, 1)


FILE, OTHER = (f"{digit * 32}-0003.safetensors" for digit in "ab")
TAKES = msgspec.structs.replace(GOOD, format=2, constants=[ConstantsRef(FILE, 5000), ConstantsRef(OTHER, 5000)])
PART_TAKES = msgspec.structs.replace(PART, format=2, constants=[Constants(DataFile(FILE, 5000, 4096, HEX * 2), ["w"])])


def test_constants_count_apart():
    m.check_manifest(TAKES, NAME, "job")
    m.check_part(PART_TAKES, TAKES, 1)
    assert (TAKES.bytes, TAKES.constants_bytes) == (10200, 10000)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": 1}, "which format 1 does not have"),
        ({"constants": [ConstantsRef(OTHER, 5000), ConstantsRef(FILE, 5000)]}, "in disorder"),
        ({"constants": [ConstantsRef(FILE, 5000), ConstantsRef(FILE, 5000)]}, "in disorder"),
        ({"constants": [ConstantsRef(FILE.replace("0003", "0002"), 5000)]}, "impossible entry for the constants"),
        ({"constants": [ConstantsRef("../" + FILE, 5000)]}, "impossible entry"),
        ({"constants": [ConstantsRef(FILE + ".part", 5000)]}, "impossible entry"),
        ({"constants": [ConstantsRef(FILE.upper(), 5000)]}, "impossible entry"),
        ({"constants": [ConstantsRef(FILE, 9)]}, "impossible entry"),
    ],
)
def test_a_manifest_whose_constants_cannot_be_is_damaged(change, word):
    with pytest.raises(DamagedError, match=word):
        m.check_manifest(msgspec.structs.replace(TAKES, **change), NAME, "job")


def takes(arrays=("w",), **change):
    return {"constants": [Constants(msgspec.structs.replace(PART_TAKES.constants[0].data, **change), list(arrays))]}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": 1}, "which format 1 does not have"),
        (takes(file="c" * 32 + "-0003.safetensors"), "and the manifest does not"),
        (takes(file="../../etc/passwd"), "and the manifest does not"),
        (takes(bytes=4999), "disagree on the size"),
        (takes(block_bytes=1), "blocks of 1 bytes"),
        (takes(xxh3=HEX), "1 checksums for 2 blocks"),
        (takes(arrays=[]), "takes no array"),
        (takes(arrays=["w", "w"]), "one twice"),
        ({"constants": PART_TAKES.constants * 2}, "one twice"),
    ],
)
def test_a_part_whose_constants_do_not_fit_is_damaged(change, word):
    with pytest.raises(DamagedError, match=word):
        m.check_part(msgspec.structs.replace(PART_TAKES, **change), TAKES, 1)


def test_a_newer_format_is_not_guessed_at():
    m.check_format(2, "x", may_have_constants=True)
    with pytest.raises(FormatVersionError, match="x has format 3"):
        m.check_format(3, "x", may_have_constants=True)
    m.check_format(1, "x")
    with pytest.raises(FormatVersionError, match="x has format 2"):
        m.check_format(2, "x")
    with pytest.raises(DamagedError):
        m.check_format(0, "x")
