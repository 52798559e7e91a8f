"""Pictures of matplotlib made part of a page: colours become the page's variables, so that they follow light and dark, text
becomes the page's own font, names become unique in the page, and all that nobody sees is left out. Pure."""

import re
from collections.abc import Mapping
from html import escape
from xml.etree import ElementTree

from lastgood.report.markup import Markup, element, together

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_REFERENCE = re.compile(r"(?<=url\(#)([^)]+)(?=\))")
_SPACES = re.compile(r"\s+")
_UNSEEN = ("metadata", "style")
_NOT_TURNED = "rotate(-0 "


def inlined(svg: str, *, prefix: str, colours: Mapping[str, str], title: str, description: str, class_: str) -> Markup:
    """The picture as an element of a page.

    `prefix` is unique in the page; `colours` says which colour in the picture (#rrggbb) stands for which variable. The
    title and the description are what somebody hears who does not see it.
    """
    root = ElementTree.fromstring(svg)
    return element(
        "svg",
        element("title", title, id=f"{prefix}-title"),
        element("desc", description, id=f"{prefix}-desc"),
        _inside(root, prefix, colours),
        class_=f"chart {class_}",
        viewBox=_shortened(root.get("viewBox", "")),
        role="img",
        aria_labelledby=f"{prefix}-title",
        aria_describedby=f"{prefix}-desc",
    )


def _inside(node: ElementTree.Element, prefix: str, colours: Mapping[str, str]) -> Markup:
    return together(_markup_of(child, prefix, colours) for child in node if child.tag.removeprefix(_SVG) not in _UNSEEN)


def _markup_of(node: ElementTree.Element, prefix: str, colours: Mapping[str, str]) -> Markup:
    name = node.tag.removeprefix(_SVG)
    if name == "g":
        _lift_style(node)
    inner = _inside(node, prefix, colours)
    attributes = _attributes_of(node, name, prefix, colours)
    if name in ("g", "defs") and (not inner or (name == "g" and not attributes)):
        return inner
    said = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    text = together([node.text or ""]) if name == "text" else Markup("")
    return Markup(f"<{name}{said}>{text}{inner}</{name}>" if text or inner else f"<{name}{said}/>")


def _lift_style(group: ElementTree.Element) -> None:
    """Marks of a group that all look alike have their style from it: said once, not a thousand times."""
    marks = [child for child in group if child.tag == f"{_SVG}use"]
    styles = {mark.get("style") for mark in marks}
    if len(marks) > 1 and len(styles) == 1 and "style" not in group.attrib:
        for mark in marks:
            group.set("style", mark.attrib.pop("style", ""))


def _attributes_of(node: ElementTree.Element, name: str, prefix: str, colours: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, value in node.attrib.items():
        if key == "id":
            if name != "g":  # Nothing refers to a group.
                found["id"] = f"{prefix}-{value}"
        elif key == f"{_XLINK}href":
            found["href"] = f"#{prefix}-{value.removeprefix('#')}"
        elif key == "style":
            if style := _style(value, prefix, colours):
                found["style"] = style
        elif not (key == "transform" and value.startswith(_NOT_TURNED)):
            short = _shortened(value)
            found[key] = _compact(short) if key == "d" else _REFERENCE.sub(rf"{prefix}-\1", short)
    return found


def _style(value: str, prefix: str, colours: Mapping[str, str]) -> str:
    kept = []
    for declared in value.split(";"):
        what, _, how = declared.strip().partition(": ")
        # The family is the page's.
        if what and what != "font-family":
            is_ours = how in colours
            kept.append(
                f"{what}:" + (f"var(--{colours[how]})" if is_ours else _REFERENCE.sub(rf"{prefix}-\1", _shortened(how)))
            )
    return ";".join(kept)


def _shortened(value: str) -> str:
    """A tenth of a pixel is as much as is seen."""
    return _SPACES.sub(" ", _LONG_NUMBER.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), value)).strip()


def _compact(path: str) -> str:
    """The same path, its straight lines along an axis as H and V.

    >>> _compact("M 1 2 L 5 2 L 5 0 L 3 1 z")
    'M1 2H5V0L3 1z'
    """
    words = path.split(" ")
    made, at, i = [], ("", ""), 0
    while i < len(words):
        command = words[i]
        if command not in ("M", "L") or i + 2 >= len(words):
            # A curve, or the end of a figure: as it is.
            made.append(command if command.isalpha() else f" {command}")
            at = ("", "")
            i += 1
            continue
        to = (words[i + 1], words[i + 2])
        if command == "L" and to[1] == at[1]:
            made.append(f"H{to[0]}")
        elif command == "L" and to[0] == at[0]:
            made.append(f"V{to[1]}")
        else:
            made.append(f"{command}{to[0]} {to[1]}")
        at = to
        i += 3
    return "".join(made)
