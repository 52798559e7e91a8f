"""Checkpoints that lie: altered content under checksums that fit, so that only the inner checks can refuse it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import xxhash

Edit = Callable[[dict[str, Any]], object]


def seal_text(text: bytes) -> bytes:
    """Any text that ends with "}" as a sealed document, whatever is in it."""
    body = text.rstrip()[:-1].rstrip()
    return body + b',\n "xxh3": "' + xxhash.xxh3_64_hexdigest(body).encode() + b'"\n}\n'


def unsealed(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_bytes())
    document.pop("xxh3")
    return document


def reseal(path: Path, edit: Edit) -> None:
    """Edit a document in place; a dict that the edit returns replaces it."""
    document = unsealed(path)
    replaced = edit(document)
    text = msgspec.json.encode(replaced if isinstance(replaced, dict) else document)
    path.write_bytes(seal_text(text))


def split_data(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a data file, and what follows it."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def with_header(text: bytes, payload: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text + payload


def nothing(document: dict[str, Any]) -> None:
    """No edit."""


def forge(directory: Path, *, data: bytes | None = None, part: Edit = nothing, manifest: Edit = nothing) -> None:
    """Alter rank 0 of a checkpoint: its data file, then its part, which is made to fit the data before it
    is edited, then the manifest, which is made to fit the part before it is edited."""
    data_path, part_path = directory / "rank-00000.safetensors", directory / "rank-00000.json"
    if data is not None:
        data_path.write_bytes(data)

    def fit_data(document: dict[str, Any]) -> object:
        content, size = data_path.read_bytes(), document["data"]["block_bytes"]
        blocks = [content[at : at + size] for at in range(0, len(content), size)]
        document["data"]["bytes"] = len(content)
        document["data"]["xxh3"] = "".join(map(xxhash.xxh3_64_hexdigest, blocks))
        return part(document)

    if data is not None or part is not nothing:
        reseal(part_path, fit_data)

    def fit_part(document: dict[str, Any]) -> object:
        text = part_path.read_bytes()
        try:
            data_bytes = unsealed(part_path)["data"]["bytes"]
        except (ValueError, KeyError, TypeError):
            data_bytes = document["parts"][0]["data_bytes"]
        document["parts"][0] |= {
            "bytes": len(text),
            "xxh3": xxhash.xxh3_64_hexdigest(text),
            "data_bytes": data_bytes,
        }
        return manifest(document)

    reseal(directory / "manifest.json", fit_part)
