"""JSON documents that carry their own checksum, so that any altered bit is seen.

A sealed document is an object whose last member is `"xxh3"`: the XXH3-64 of every byte before that
member. It is still ordinary JSON for any other tool. The checksum guards against accidents (torn
writes, flipped bits, a hand edit by mistake), not against an attacker, who can recompute it.
"""

import re
from typing import TypeVar

import msgspec
import xxhash

from lastgood.core.errors import DamagedError

T = TypeVar("T")

# Byte for byte what `seal` writes: were white space free, a flipped bit in it would go unseen.
_SEAL = re.compile(rb',\n "xxh3": "([0-9a-f]{16})"\n\}\n\Z')


def seal(document: msgspec.Struct | dict[str, object]) -> bytes:
    """The document as readable JSON that ends with its checksum.

    >>> unseal(seal({"step": 3}), dict, "example")
    {'step': 3}
    """
    text = msgspec.json.format(msgspec.json.encode(document), indent=1)
    if not text.endswith(b"\n}"):
        raise ValueError("only a non-empty object can be sealed")
    body = text[:-2]
    return body + b',\n "xxh3": "' + xxhash.xxh3_64_hexdigest(body).encode() + b'"\n}\n'


def unseal(data: bytes, kind: type[T], name: str) -> T:
    """The document in `data`, checked; `name` is how errors call it.

    Raises DamagedError if the checksum is missing or wrong, or if the content is not a `kind`.
    """
    match = _SEAL.search(data, max(0, len(data) - 64))
    if match is None:
        state = "is empty" if not data else "has no checksum at its end: cut short, or not written by lastgood"
        raise DamagedError(f"{name} {state}")
    body = data[: match.start()]
    if xxhash.xxh3_64_hexdigest(body).encode() != match[1]:
        raise DamagedError(f"{name} does not match its checksum: it was altered after it was written")
    try:
        return msgspec.json.decode(body + b"}", type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise DamagedError(f"{name} is not what it should be: {error}") from error
    except RecursionError as error:
        raise DamagedError(f"{name} is nested too deeply") from error
