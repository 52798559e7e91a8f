"""A state's skeleton as indented text: one line per value, arrays with type, shape and size."""

import json
from typing import Any

from lastgood.cli import output
from lastgood.core import units
from lastgood.store.rank_state import Held

_SEQUENCES = {"$tuple": "()", "$set": "{}", "$frozenset": "{}"}
_MAPPINGS = ("$dict", "$OrderedDict", "$Counter")
_WIDTH = output.WIDTH - 2  # `show` indents every entry
_SHOWN = 8
"""Members of a list of plain values that are shown."""


def tree_lines(name: str, skeleton: Any, arrays: dict[str, Held]) -> list[str]:
    """Lines for one entry of the state. Its skeleton must be one that `core.tree` accepts."""
    lines: list[str] = []
    _add(lines, name, skeleton, arrays, 0)
    return lines


def _add(lines: list[str], label: str, node: Any, arrays: dict[str, Held], indent: int) -> None:
    begin = " " * indent + output.plain(output.shorten(label, 40))
    members = _members(node)
    if members is None:
        lines.append(output.shorten(f"{begin}: {output.plain(_value(node, arrays))}", _WIDTH))
    elif isinstance(members, _Sequence) and all(_is_plain(child) for child in members.items):
        lines.append(output.shorten(f"{begin}: {output.plain(members.on_one_line())}", _WIDTH))
    else:
        pairs = enumerate(members.items) if isinstance(members, _Sequence) else members
        lines.append(begin if members else f"{begin}: {{}}")
        for key, child in pairs:
            _add(lines, str(key), child, arrays, indent + 2)


class _Sequence:
    def __init__(self, brackets: str, items: list[Any]) -> None:
        self.brackets = brackets
        self.items = items

    def on_one_line(self) -> str:
        shown = [_value(item, {}) for item in self.items[:_SHOWN]]
        if len(self.items) > _SHOWN:
            shown.append(f"... {len(self.items)} in all")
        return self.brackets[0] + ", ".join(shown) + self.brackets[1]


def _members(node: Any) -> "_Sequence | list[tuple[str, Any]] | None":
    """What a container holds; None for a single value."""
    if isinstance(node, list):
        return _Sequence("[]", node)
    if not isinstance(node, dict):
        return None
    tag = next(iter(node), "")
    if tag in _SEQUENCES:
        return _Sequence(_SEQUENCES[tag], node[tag])
    if tag == "$deque":
        return _Sequence("[]", node[tag][1])
    if tag in _MAPPINGS:
        return [(key if isinstance(key, str) else _value(key, {}), child) for key, child in node[tag]]
    return None if tag.startswith("$") else list(node.items())


def _is_plain(node: Any) -> bool:
    return not isinstance(node, list | dict) or (isinstance(node, dict) and next(iter(node), "") in ("$int", "$float"))


def _value(node: Any, arrays: dict[str, Held]) -> str:
    if not isinstance(node, dict):
        return json.dumps(node, ensure_ascii=False)
    tag = next(iter(node), "")
    if tag == "$array":
        return _array(node, arrays)
    if tag in ("$int", "$float"):
        return str(node[tag])
    if tag in ("$bytes", "$bytearray"):
        return f"{tag[1:]}, {units.byte_size(len(node[tag]) * 3 // 4)}"
    return f"{tag.lstrip('$')} {json.dumps(node.get(tag), ensure_ascii=False)}"


def _array(node: dict[str, Any], arrays: dict[str, Held]) -> str:
    held = arrays[node["$array"]]
    spec = held.placed.spec
    what = f"{node['dtype']} {node['shape']}" if "dtype" in node else f"{spec.dtype} {list(spec.shape)}"
    where = f", in the file of rank {held.rank}" if held.is_shared else ""
    return f"{what}, {units.byte_size(spec.nbytes)}{where}"
