"""A state tree as named arrays and a JSON skeleton, and back. No pickle: loading never runs code.

The skeleton keeps JSON's own types as they are and tags everything else as an object with one member
whose name begins with `$`:

    tuple {"$tuple": [...]}       set, frozenset {"$set": [...]}        bytes {"$bytes": base64}
    other keys {"$dict": [[k,v]]} OrderedDict, Counter, deque, complex  nan, inf {"$float": "nan"}
    big int {"$int": "..."}       NumPy scalar {"$scalar": [dtype, base64]}
    array {"$array": name, "kind": "numpy", ...}       framework values {"$torch.dtype": "float32"}

The set is closed: a value of any other type, or of a subclass, is an UnstorableError that names its
place, because a subclass restored as its base would be a silent change.
"""

import base64
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from lastgood.core.errors import DamagedError, UnstorableError

Json = Any
"""What `json` can hold: None, bool, int, float, str, list, dict with text keys."""

MAX_DEPTH = 100
"""Far from Python's own limit of 1000 calls, of which a level takes up to five and the program needs some."""
_INT64 = range(-(2**63), 2**63)


class ArrayLeaf(msgspec.Struct, frozen=True):
    """One array of the state: what it is, and where its bytes are now.

    `data` is the framework's own object (a view of the live state, not a copy); `kind` says whose.
    `tag` is what the framework needs to make the same kind of object again.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]
    data: Any
    tag: dict[str, Json]
    identity: Hashable
    """Equal for two leaves that share their memory: such arrays are stored once."""
    address: int = 0
    """Where its bytes lie in the host's memory, in C order and without holes; 0 if they do not."""


class Codec(Protocol):
    """How one framework's values enter and leave a tree."""

    def to_leaf(self, value: object) -> ArrayLeaf | None:
        """The value as an array, or None if it is no array of this framework. Raises ValueError with
        the reason if it is one that cannot be stored."""

    def to_json(self, value: object) -> tuple[str, Json] | None:
        """A non-array value as (tag without `$`, JSON), or None if it is not of this framework."""

    def from_json(self, tag: str, content: Json) -> object:
        """The value again. Raises KeyError for a tag that is not of this codec."""


class Flat(NamedTuple):
    arrays: dict[str, ArrayLeaf]
    skeleton: Json


def flatten(tree: object, codecs: Iterable[Codec] = (), at: str = "") -> Flat:
    """Split `tree` into named arrays and a skeleton; `at` is the place that errors begin with.

    Names are the keys on the way joined by dots, and unique (`a.b#2` where two would be equal).
    Arrays that share their memory appear once.

    >>> flatten({"lr": 0.1, "betas": (0.9, 0.999)}).skeleton
    {'lr': 0.1, 'betas': {'$tuple': [0.9, 0.999]}}
    >>> flatten({"hook": print})
    Traceback (most recent call last):
    lastgood.core.errors.UnstorableError: hook: cannot store a value of type builtin_function_or_method
      what to do: leave it out of the state, or give a pair of functions that saves and loads it as plain values
    """
    flattener = _Flattener(tuple(codecs))
    skeleton = flattener.encode(tree, at, 0)
    return Flat(flattener.arrays, skeleton)


class _Flattener:
    def __init__(self, codecs: tuple[Codec, ...]) -> None:
        self.codecs = codecs
        self.codecs_of: dict[type, tuple[Codec, ...]] = {}
        """For types that were arrays of a framework: that one, to be asked alone."""
        self.arrays: dict[str, ArrayLeaf] = {}
        self.names: dict[Hashable, str] = {}

    def encode(self, value: object, at: str, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise _unstorable(at, f"nested more than {MAX_DEPTH} deep (does it contain itself?)")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return _encode_text(value)  # type: ignore[arg-type]
        if kind is int:
            return value if value in _INT64 else {"$int": _decimal(value, at)}  # type: ignore[arg-type]
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}  # type: ignore[arg-type]
        encode = _CONTAINERS.get(kind)
        if encode is not None:
            return encode(self, value, at, depth + 1)
        return self.encode_foreign(value, at)

    def encode_foreign(self, value: object, at: str) -> Json:
        kind = type(value)
        for codec in self.codecs_of.get(kind, self.codecs):
            try:
                leaf = codec.to_leaf(value)
                if leaf is not None:
                    self.codecs_of[kind] = (codec,)
                    return self.add(leaf, at)
                tagged = codec.to_json(value)
            except ValueError as error:
                raise _unstorable(at, str(error)) from error
            if tagged is not None:
                return {"$" + tagged[0]: tagged[1]}
        raise _unstorable(at, f"a value of type {kind.__qualname__}")

    def add(self, leaf: ArrayLeaf, at: str) -> Json:
        # The tag is part of the identity: one memory seen as two types is two arrays.
        tag = repr(sorted(leaf.tag.items())) if leaf.tag else ""
        identity = (leaf.identity, leaf.kind, leaf.dtype, leaf.shape, tag)
        name = self.names.get(identity)
        if name is None:
            name, number = at or "value", 1
            while name in self.arrays or name == "__metadata__":
                number += 1
                name = f"{at or 'value'}#{number}"
            self.names[identity] = name
            self.arrays[name] = leaf
        return {"$array": name, "kind": leaf.kind, **leaf.tag}

    def items(self, values: Iterable[object], at: str, depth: int) -> list[Json]:
        return [
            # Lists of numbers are long.
            value if type(value) is int and value in _INT64 else self.encode(value, _join(at, index), depth)
            for index, value in enumerate(values)
        ]

    def pairs(self, mapping: dict[Any, Any], at: str, depth: int) -> list[Json]:
        found = []
        for key, value in mapping.items():
            place = _join(at, key)
            is_plain = type(key) is str and key.isascii()
            found.append(
                [key if is_plain else self.encode(key, f"{place} (the key)", depth), self.encode(value, place, depth)]
            )
        return found

    def mapping(self, value: dict[Any, Any], at: str, depth: int) -> Json:
        for key in value:
            if type(key) is not str or key.startswith("$") or not _is_unicode(key):
                return {"$dict": self.pairs(value, at, depth)}
        return {key: self.encode(item, _join(at, key), depth) for key, item in value.items()}

    def members(self, value: Iterable[object], at: str, depth: int) -> list[Json]:
        # Sets have no order of their own; a fixed one makes equal states equal byte for byte.
        return sorted((self.encode(item, at, depth) for item in value), key=repr)


_CONTAINERS: dict[type, Callable[[_Flattener, Any, str, int], Json]] = {
    list: lambda f, v, at, d: f.items(v, at, d),
    dict: lambda f, v, at, d: f.mapping(v, at, d),
    tuple: lambda f, v, at, d: {"$tuple": f.items(v, at, d)},
    set: lambda f, v, at, d: {"$set": f.members(v, at, d)},
    frozenset: lambda f, v, at, d: {"$frozenset": f.members(v, at, d)},
    bytes: lambda f, v, at, d: {"$bytes": base64.b64encode(v).decode()},
    bytearray: lambda f, v, at, d: {"$bytearray": base64.b64encode(v).decode()},
    complex: lambda f, v, at, d: {"$complex": [f.encode(v.real, at, d), f.encode(v.imag, at, d)]},
    OrderedDict: lambda f, v, at, d: {"$OrderedDict": f.pairs(v, at, d)},
    Counter: lambda f, v, at, d: {"$Counter": f.pairs(v, at, d)},
    deque: lambda f, v, at, d: {"$deque": [v.maxlen, f.items(v, at, d)]},
}


def unflatten(
    skeleton: Json, array: Callable[[str, str, dict[str, Json]], object], codecs: Iterable[Codec] = ()
) -> Any:
    """The tree again; `array(name, kind, tag)` answers each array.

    Raises DamagedError for a skeleton that `flatten` cannot have made.
    """
    return _Unflattener(array, tuple(codecs)).decode(skeleton, 0)


class _Unflattener:
    def __init__(self, array: Callable[[str, str, dict[str, Json]], object], codecs: tuple[Codec, ...]) -> None:
        self.array = array
        self.codecs = codecs

    def decode(self, node: Json, depth: int) -> Any:
        if depth > MAX_DEPTH + 2:
            raise DamagedError("the skeleton is nested too deeply")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        tag = next(iter(node), "")
        if not tag.startswith("$"):
            return {key: self.decode(value, depth + 1) for key, value in node.items()}
        try:
            return self.decode_tagged(tag[1:], node, depth + 1)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedError(f"the skeleton holds a {tag} that cannot be read: {error}") from error

    def decode_tagged(self, tag: str, node: dict[str, Json], depth: int) -> Any:
        content = node["$" + tag]
        if tag == "array":
            rest = {key: value for key, value in node.items() if key not in ("$array", "kind")}
            return self.array(content, node["kind"], rest)
        if len(node) != 1:
            raise ValueError("more than one member")
        decode = _TAGS.get(tag)
        if decode is not None:
            return decode(self, content, depth)
        for codec in self.codecs:
            try:
                return codec.from_json(tag, content)
            except KeyError:
                continue
        raise ValueError("unknown, and the framework that knows it may not be installed")

    def items(self, content: Json, depth: int) -> list[Any]:
        if not isinstance(content, list):
            raise TypeError("not a list")
        return [self.decode(item, depth) for item in content]

    def pairs(self, content: Json, depth: int) -> list[tuple[Any, Any]]:
        if not isinstance(content, list):
            raise TypeError("not a list")
        return [(self.decode(key, depth), self.decode(value, depth)) for key, value in content]

    def complex_number(self, content: Json, depth: int) -> complex:
        real, imaginary = self.items(content, depth)
        return complex(real, imaginary)


_TAGS: dict[str, Callable[[_Unflattener, Any, int], Any]] = {
    "tuple": lambda u, c, d: tuple(u.items(c, d)),
    "set": lambda u, c, d: set(u.items(c, d)),
    "frozenset": lambda u, c, d: frozenset(u.items(c, d)),
    "bytes": lambda u, c, d: base64.b64decode(c, validate=True),
    "bytearray": lambda u, c, d: bytearray(base64.b64decode(c, validate=True)),
    "complex": lambda u, c, d: u.complex_number(c, d),
    "dict": lambda u, c, d: dict(u.pairs(c, d)),
    "OrderedDict": lambda u, c, d: OrderedDict(u.pairs(c, d)),
    "Counter": lambda u, c, d: Counter(dict(u.pairs(c, d))),
    "deque": lambda u, c, d: deque(u.items(c[1], d), maxlen=c[0]),
    "int": lambda u, c, d: int(c),
    "float": lambda u, c, d: float(c),
    "text": lambda u, c, d: base64.b64decode(c, validate=True).decode("utf-8", "surrogatepass"),
}


def array_names(skeleton: Json) -> list[str]:
    """The names of the arrays that a skeleton refers to, in order of appearance, each once."""
    names: dict[str, None] = {}

    def note(name: str, kind: str, tag: dict[str, Json]) -> None:
        names[name] = None

    class AnyTag:
        def to_leaf(self, value: object) -> None: ...
        def to_json(self, value: object) -> None: ...
        def from_json(self, tag: str, content: Json) -> object:
            return None

    unflatten(skeleton, note, (AnyTag(),))
    return list(names)


def _decimal(value: int, at: str) -> str:
    try:
        return str(value)
    except ValueError as error:
        # Python's guard against numbers that take for ever to convert, both ways.
        raise _unstorable(at, "an integer of thousands of digits") from error


def _encode_text(text: str) -> Json:
    if _is_unicode(text):
        return text
    return {"$text": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}


def _is_unicode(text: str) -> bool:
    """False for text with lone surrogates (file names can have them), which JSON cannot carry."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _join(at: str, key: object) -> str:
    text = key if type(key) is str else str(key) if isinstance(key, str | int) else repr(key)
    if len(text) > 200 or not _is_unicode(text):
        text = ascii(text)[:200]
    return f"{at}.{text}" if at else text


def _unstorable(at: str, reason: str) -> UnstorableError:
    return UnstorableError(
        f"{at or 'the state'}: cannot store {reason}",
        remedy="leave it out of the state, or give a pair of functions that saves and loads it as plain values",
    )
