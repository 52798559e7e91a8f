"""Fields that OpenFOAM wrote in binary: the numbers between the words.

A file is text with lists inside: `internalField nonuniform List<vector> 3600 (` and the bytes of 3600 vectors, `)`.
"""

import re
from pathlib import Path

import numpy as np

from lastgood.core.errors import DamagedError
from lastgood.prove.arrays import numbers
from lastgood.prove.raw_bytes import Raw

_COMPONENTS = {"scalar": 1, "vector": 3, "symmTensor": 6, "tensor": 9, "sphericalTensor": 1, "complex": 2}
_LIST = re.compile(rb"(?:List<(\w+)>\s*)(\d+)\s*\(")
_FORMAT = re.compile(rb"\bformat\s+binary\s*;")
_PATCH = re.compile(rb"(\w+)\s*\{")
_KEYWORD = re.compile(rb"(\w+)\s+nonuniform\s*\Z")
_ARCH = re.compile(rb'arch\s+"(LSB|MSB);label=(\d+);scalar=(\d+)"')


def is_binary_foam(start: bytes) -> bool:
    """True for the beginning of such a file. In text format a field is text like any other."""
    return b"FoamFile" in start[:4096] and _FORMAT.search(start[:4096]) is not None


def read_foam(path: Path) -> dict[str, object]:
    """Each list by its name ("internalField", "inlet.value"), and the lines between them as "text"."""
    with Raw(path).open() as file:
        data = file.read()
    arch = _ARCH.search(data[:4096])
    order = ">" if arch and arch[1] == b"MSB" else "<"
    types = {name: (f"{order}f{int(arch[3]) // 8 if arch else 8}", count) for name, count in _COMPONENTS.items()}
    types["label"] = (f"{order}i{int(arch[2]) // 8 if arch else 4}", 1)
    found: dict[str, object] = {}
    texts: list[bytes] = []
    at = 0
    while (match := _LIST.search(data, at)) is not None:
        kind, count = match[1].decode(), int(match[2])
        text = data[at : match.start()]
        if kind not in types:
            # A list of words or of lists, whose end cannot be known: it stays text.
            texts.append(data[at : match.end()])
            at = match.end()
            continue
        dtype, components = types[kind]
        size = count * components * np.dtype(dtype).itemsize
        end = match.end() + size
        if data[end : end + 1] != b")":
            raise DamagedError(
                f"{path}: the list of {count:,} {kind}s at byte {match.start():,} has no end where it should"
            )
        array = np.frombuffer(data, dtype, count * components, match.end())
        name = _unique(_name(b"".join(texts) + text, text), found)
        found[name] = numbers(array.reshape(count, components) if components > 1 else array)
        texts.append(text)
        at = end
    texts.append(data[at:])
    lines = b"\n".join(texts).decode("latin-1").splitlines()
    return {**found, "text": [line.strip() for line in lines if line.strip()]}


def _name(before: bytes, text: bytes) -> str:
    keyword = _KEYWORD.search(text)
    word = keyword[1].decode() if keyword else "list"
    # A patch that is open: the last name with a bracket that was not closed since.
    opened = [
        match
        for match in _PATCH.finditer(before)
        if before.count(b"{", match.start()) > before.count(b"}", match.start())
    ]
    return f"{opened[-1][1].decode()}.{word}" if opened and opened[-1][1] != b"FoamFile" else word


def _unique(name: str, taken: dict[str, object]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}#{number}"
    return found
