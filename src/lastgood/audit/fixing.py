"""Apply the edits of findings to a file, and show what they change."""

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lastgood.audit.finding import Finding
from lastgood.audit.source import Edit, Source
from lastgood.store import durable


def mend(source: Source, findings: Sequence[Finding]) -> tuple[Source, list[Finding]]:
    """(the text with their edits, those findings that were mended). All edits of a finding are applied, or none: not
    where they touch what another one changes."""
    taken: list[Edit] = []
    mended = []
    for finding in findings:
        if (
            finding.edits
            and finding.path == source.path
            and not any(_collide(e, t) for e in finding.edits for t in taken)
        ):
            taken += [edit for edit in finding.edits if edit not in taken]
            mended.append(finding)
    data = source.data
    # From the end, so that offsets stay true; of additions at one place, the first one stays first.
    for _, edit in sorted(enumerate(taken), key=lambda item: (item[1].begin, item[1].end, item[0]), reverse=True):
        data = data[: edit.begin] + _fitting(edit, data) + data[edit.end :]
    return Source(source.path, data), mended


def write(source: Source, before: Source) -> None:
    """Replace the file at once or not at all; it keeps its permissions. Raises LastgoodError.

    A link stays one: the file that it names is replaced.
    """
    path = Path(os.path.realpath(source.path))
    with durable.explained("write", path, safe="the file is as it was"):
        mode = path.stat().st_mode & 0o7777
        if path.read_bytes() != before.data:
            raise InterruptedError("it was changed while it was audited")
        with durable.NewFile(path, os.urandom(8).hex()) as new:
            new.write(source.data)
            os.fchmod(new.fileno(), mode)
            new.commit()


def difference(before: Source, after: Source) -> Iterator[str]:
    """A unified diff, line by line."""
    old, new = _lines(before), _lines(after)
    for line in difflib.unified_diff(old, new, before.path, after.path, lineterm="\n"):
        text = line.removesuffix("\n")
        yield text
        if text == line:
            yield "\\ No newline at end of file"


def _collide(one: Edit, other: Edit) -> bool:
    """Additions stand beside each other, but not inside what another one takes out."""
    return one != other and one.begin < other.end and other.begin < one.end


def _fitting(edit: Edit, data: bytes) -> bytes:
    """An edit's text with the line ends of the file; on a line of its own where it is whole lines."""
    text = edit.text.encode("utf-8", "surrogateescape")
    if edit.begin == len(data) and data and not data.endswith(b"\n") and text.endswith(b"\n"):
        text = b"\n" + text[:-1]
    return text.replace(b"\n", b"\r\n") if b"\r\n" in data[: 64 << 10] else text


def _lines(source: Source) -> list[str]:
    return [line.decode("utf-8", "surrogateescape") for line in source.data.splitlines(keepends=True)]
