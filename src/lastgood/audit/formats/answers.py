"""What `lastgood audit --format json` and `lastgood explain --json` print, as types.

The reference page is made from these, and the tests decode real output with them. Members may be added in later
versions; none changes its meaning. Lines and columns count from 1, columns in characters.
"""

from typing import Annotated, Literal

import msgspec


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    pass


SeverityWord = Annotated[
    Literal["lost", "may", "wasteful", "note"], _says("work is lost, may be lost, is wasted, or none of these")
]
Path = Annotated[str, _says("the file, as it was named or found")]


class AuditEdit(_Answer):
    begin: Annotated[int, _says("offset of the first byte to replace")]
    end: Annotated[int, _says("offset behind the last one; equal to begin where something is added")]
    text: Annotated[str, _says("what to write there")]
    line: Annotated[int, _says("the same place as begin")]
    column: Annotated[int, _says("the same place as begin")]
    end_line: Annotated[int, _says("the same place as end")]
    end_column: Annotated[int, _says("the same place as end")]


class AuditFinding(_Answer):
    code: Annotated[str, _says("the rule")]
    name: Annotated[str, _says("its name")]
    severity: SeverityWord
    path: Path
    line: Annotated[int, _says("where it begins")]
    column: Annotated[int, _says("where it begins")]
    end_line: Annotated[int, _says("where it ends")]
    end_column: Annotated[int, _says("behind its last character")]
    message: Annotated[str, _says("what is there, and what happens in which failure")]
    remedy: Annotated[str, _says("what to write instead")]
    edits: Annotated[list[AuditEdit], _says("what --fix would change for it; empty if nothing")]
    silenced_because: Annotated[str, _says("the reason of the comment that silences it; empty among the findings")] = ""


class AuditProblem(_Answer):
    path: Path
    line: Annotated[int | None, _says("where; null if it is the whole file")]
    column: Annotated[int | None, _says("where; null if it is the whole file")]
    message: Annotated[str, _says("why it was not audited")]
    is_partial: Annotated[bool, _says("true: only a part was not, or the file is nothing to audit")]


class AuditedFile(_Answer):
    path: Path
    kind: Annotated[str, _says("what it was read as, such as batch script")]


class AuditAnswer(_Answer):
    files: Annotated[list[AuditedFile], _says("all that were audited")]
    findings: Annotated[list[AuditFinding], _says("by file, in the order of their lines")]
    silenced: Annotated[list[AuditFinding], _says("findings that a comment in the file silences")]
    fixed: Annotated[list[AuditFinding], _says("what --fix has mended, at the places where it was before")]
    problems: Annotated[list[AuditProblem], _says("what was not audited")]


class ExplainedRule(_Answer):
    code: Annotated[str, _says("LG and three digits")]
    name: Annotated[str, _says("a few words joined by dashes")]
    family: Annotated[str, _says("what it is about")]
    severity: SeverityWord
    reads: Annotated[str, _says("the kind of file")]
    what: Annotated[str, _says("what it looks for")]
    why: Annotated[str, _says("which failure costs what")]
    bad: Annotated[str, _says("a file in which it finds something")]
    good: Annotated[str, _says("the same, mended")]
    safe_to_ignore: Annotated[str, _says("when to leave it as it is")]
    source: Annotated[str, _says("what it rests on")]


class ExplainAnswer(_Answer):
    rules: Annotated[list[ExplainedRule], _says("by code")]
