"""A JSON document as its single values: what two undisturbed runs have alike in it, where not all is. Pure."""

from typing import Any

Path = tuple[str | int, ...]


def differing_leaves(left: Any, right: Any) -> tuple[Path, ...] | None:
    """The places of single values that are not the same in both; None if the documents are not built alike, or have no
    value that is the same.

    >>> differing_leaves({"loss": 0.5, "took_s": 1.2}, {"loss": 0.5, "took_s": 1.3})
    (('took_s',),)
    >>> differing_leaves({"loss": 0.5}, {"loss": 0.5, "more": 1}) is None
    True
    """
    ours, theirs = dict(_leaves(left, ())), dict(_leaves(right, ()))
    if ours.keys() != theirs.keys():
        return None
    differing = tuple(path for path, value in ours.items() if repr(value) != repr(theirs[path]))
    return differing if len(differing) < len(ours) else None


def without_leaves(value: Any, paths: tuple[Path, ...]) -> Any:
    """The document without what is at these places; the rest stays where it is.

    >>> without_leaves({"loss": 0.5, "times": [1, 2]}, (("times", 0),))
    {'loss': 0.5, 'times': [None, 2]}
    """
    return _without(value, frozenset(paths), ())


def _without(value: Any, paths: frozenset[Path], at: Path) -> Any:
    if at in paths:
        return None
    if isinstance(value, dict):
        return {key: _without(one, paths, (*at, key)) for key, one in value.items() if (*at, key) not in paths}
    if isinstance(value, list):
        return [_without(one, paths, (*at, i)) for i, one in enumerate(value)]
    return value


def _leaves(value: Any, at: Path) -> list[tuple[Path, Any]]:
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in _leaves(one, (*at, key))]
    if isinstance(value, list):
        return [leaf for i, one in enumerate(value) for leaf in _leaves(one, (*at, i))]
    return [(at, value)]


def told_leaves(paths: tuple[Path, ...]) -> str:
    """The first three of them, as they are written.

    >>> told_leaves((("runs", 0, "took_s"),))
    'runs[0].took_s'
    """
    texts = ["".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".") for path in paths[:3]]
    return ", ".join(texts) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
