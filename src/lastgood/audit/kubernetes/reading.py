"""Find the workloads in a YAML file, and name what of it could not be read."""

import re
from collections.abc import Iterator

import yaml

from lastgood.audit.finding import Problem
from lastgood.audit.kubernetes.manifest import GROUPS, KINDS, Claim, Manifest
from lastgood.audit.kubernetes.templates import UNKNOWN, Blanked, blank, variables
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.source import Source, Span

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CLAIM = "PersistentVolumeClaim"
_KIND = re.compile(
    rf"""^[ \t{{,-]*["']?kind["']?[ \t]*:[ \t]*["']?({"|".join((*KINDS, _CLAIM, "List"))})\b""", re.MULTILINE
)
_KIND_IN_JSON = re.compile(rf"""["']kind["'][ \t]*:[ \t]*["']({"|".join((*KINDS, _CLAIM, "List"))})["']""")
_API = re.compile(rb"""^[ \t{,-]*["']?apiVersion["']?[ \t]*:|["']apiVersion["'][ \t]*:""", re.MULTILINE)
_BETWEEN = re.compile(r"^---(?=[ \t\r\n]|\Z)[^\n]*|^\.\.\.[ \t\r]*$", re.MULTILINE)
_TEXT = (".py", ".sh", ".bash", ".sbatch", ".slurm", ".md", ".rst", ".go", ".ipynb", ".txt", ".html")
_FIRST_LINE = re.compile(r"""(?:- |\{|["']?[\w.$/\ue000-]+["']?[ \t]*:)""")


def looks_like_manifest(source: Source) -> bool:
    """True for YAML with objects of Kubernetes, whatever their kinds, and for templates of such.

    >>> looks_like_manifest(Source("a", b"apiVersion: v1\\nkind: Service\\n")), looks_like_manifest(Source("a", b"a: b\\n"))
    (True, False)
    """
    if source.path.lower().endswith(_TEXT) or source.data.startswith(b"#!") or b"\0" in source.data[:4096]:
        return False
    if not _API.search(source.data) or b"kind" not in source.data:
        return False
    for line in blank(source.text(0, len(source.data)).lstrip("\ufeff")).text.split("\n"):
        bare = line.strip()
        if bare and not bare.startswith(("#", "---", "%")):
            return bool(_FIRST_LINE.match(bare))
    return False


def read_manifests(source: Source) -> tuple[list[Manifest], list[Problem]]:
    """Every workload of the file, in its order. Other kinds of objects are passed over without a word."""
    text = source.data.decode("utf-8", "replace")
    blanked = blank(text.removeprefix("\ufeff"))
    roots: list[tuple[Value, int, int]] = []
    problems: list[Problem] = []
    for base, chunk in _documents(blanked.text):
        if _KIND.search(chunk) or _KIND_IN_JSON.search(chunk):
            last = base + chunk.count("\n") + 1
            roots += [(root, base, last) for root in _objects(source, chunk, base, blanked, problems)]
    claims = {claim.name: claim for root, _, _ in roots for claim in _claim(root)}
    manifests = []
    for root, first, last in roots:
        if _is_workload(root):
            own = tuple(line for line in blanked.lines if first < line <= last)
            manifests.append(Manifest(root, claims, own))
    filled_in = sorted({*blanked.lines, *variables(text)})
    if manifests and filled_in:
        problems.append(_not_filled_in(source, filled_in, bool(blanked.lines)))
    return manifests, problems


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """(lines in front of it, text) of each document; what is broken in one does not hide the others."""
    at = line = 0
    for match in _BETWEEN.finditer(text):
        yield line, text[at : match.start()]
        line += text.count("\n", at, match.end())
        at = match.end()
        if match[0].startswith("---") and match[0][3:].strip() and not match[0][3:].strip().startswith("#"):
            # A document may begin on the line of its mark.
            at -= len(match[0]) - 3
    yield line, text[at:]


def _objects(source: Source, chunk: str, base: int, blanked: Blanked, problems: list[Problem]) -> Iterator[Value]:
    if not chunk.isascii() and "\ufffd" in chunk:
        problems.append(Problem(path=source.path, message="parts of this are not UTF-8", is_partial=True))
    try:
        node = yaml.compose(chunk, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problems.append(_broken(source, error, base, blanked))
        return
    if isinstance(node, yaml.MappingNode):
        yield from _unpacked(Value(source, node, base))


def _unpacked(root: Value, depth: int = 0) -> Iterator[Value]:
    if root.text("kind").endswith("List") and root.has("items") and depth < 3:
        # An object that is there several times by an alias is one.
        items = {id(item.node): item for item in root.elements("items")}
        for item in items.values():
            yield from _unpacked(item, depth + 1)
    else:
        yield root


def _is_workload(root: Value) -> bool:
    api = root.text("apiVersion")
    return bool(api) and (UNKNOWN in api or api.startswith(GROUPS.get(root.text("kind"), ())))


def _claim(root: Value) -> Iterator[Claim]:
    if root.text("kind") == _CLAIM and root.known("metadata", "name"):
        modes = root.elements("spec", "accessModes")
        place = root.get("spec", "accessModes") or root
        yield Claim(root.known("metadata", "name"), tuple(mode.text() for mode in modes), place.with_key)


def _broken(source: Source, error: Exception, base: int, blanked: Blanked) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = min(base + (mark.line if mark is not None else 0) + 1, source.line_count)
    width = len(source.line(line))
    column = min((mark.column if mark is not None else 0) + 1, width + 1)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
    message = f"this is no valid YAML: {what}; the document was not audited"
    if blanked.lines:
        message = f"this template cannot be read before it is filled in ({what}); audit what it renders to"
    span = Span(line, column, line, max(width + 1, column))
    # A template is no broken file: what it renders to can be audited.
    return Problem(path=source.path, message=message, span=span, is_partial=bool(blanked.lines))


def _not_filled_in(source: Source, lines: list[int], is_template: bool) -> Problem:
    what = "tags of a template" if is_template else "variables"
    count = f"{len(lines)} lines hold {what}" if len(lines) > 1 else f"a line holds {what}"
    message = f"{count} that are filled in later; what depends on them was not audited"
    if is_template:
        message += ", so audit what it renders to as well"
    return Problem(path=source.path, message=message, span=source.span_of_line(lines[0]), is_partial=True)
