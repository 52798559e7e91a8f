"""The page that a proof ends with: what was done, run by run, then the answer, and why it may be. Pure."""

import textwrap
from collections.abc import Callable, Sequence

from lastgood.core.quoting import shown_command
from lastgood.prove.document import ProveAnswer, ProvedDifference, ProvedKill, ProvedPart, ProvedRun

WIDTH = 100
_GAP = 2
_MOST_ITEMS = 6
_MOST_NOTES = 8
_MOST_LINES = 6


def page(answer: ProveAnswer) -> str:
    lines = [f"proof of  {shown_command(answer.command)}"]
    if answer.way:
        lines += _field("resumes", f"by {answer.way}")
    if answer.checkpoint_files:
        lines += _field(
            "saves", f"{answer.checkpoints} checkpoints: {', '.join(answer.checkpoint_files[:_MOST_ITEMS])}"
        )
    elif answer.checkpoints:
        lines += _field("saves", f"{answer.checkpoints} checkpoints")
    for part in answer.pair:
        lines += _field("compares", _compared(part))
    for note in answer.notes[:_MOST_NOTES]:
        lines += _field("note", note)
    if len(answer.notes) > _MOST_NOTES:
        lines += _field("note", f"and {len(answer.notes) - _MOST_NOTES} more; all are in --json")
    if answer.runs:
        lines += ["", *_table(answer)]
    lines += ["", *_wrapped(f"{answer.answer.upper()}: {answer.reason}")]
    lines += _details(answer)
    if answer.why:
        lines += ["", "why it may be"]
        for cause in answer.why:
            lines += _wrapped(f"- {cause.name}", "  ")
            for evidence in cause.evidence:
                lines += _wrapped(evidence, "    ", "    ")
            if cause.remedy:
                lines += _wrapped(f"what to do: {cause.remedy}", "    ", "    ")
    if answer.output_tail:
        lines += [
            "",
            "its last words",
            *(f"    {_plain(line)[: WIDTH - 4]}" for line in answer.output_tail[-_MOST_LINES:]),
        ]
    if answer.kept:
        lines += ["", f"kept      {answer.kept}"]
    return "\n".join(lines)


def _checkpoints(answer: ProveAnswer) -> str:
    return f"{answer.checkpoints:,} checkpoint{'' if answer.checkpoints == 1 else 's'}"


def _compared(part: ProvedPart) -> str:
    items = ", ".join(_plain(item) for item in part.items[:_MOST_ITEMS])
    more = f" and {len(part.items) - _MOST_ITEMS} more" if len(part.items) > _MOST_ITEMS else ""
    return f"{part.compared:,} {part.name}" + (f" ({items}{more})" if items else "")


def _table(answer: ProveAnswer) -> list[str]:
    rows = [["undisturbed-1", "-", "-", "the others are held against it"]]
    rows.append(["undisturbed-2", "-", "-", _equal_to(answer.pair)])
    rows += [[run.name, _joined(run, _killed_at), _joined(run, _resumed_from), _run_to(run)] for run in answer.runs]
    return table(["RUN", "KILLED AT", "RESUMED FROM", "EQUAL TO THE UNDISTURBED RUN"], rows)


def _joined(run: ProvedRun, told: Callable[[ProvedKill], str]) -> str:
    return "\n".join(map(told, run.kills)) or "-"


def _killed_at(kill: ProvedKill) -> str:
    if not kill.is_hit:
        return "missed"
    where = f"step {kill.step:,}" if kill.step is not None else "by time"
    return f"{where}, saving" if "save" in kill.phase else where


def _resumed_from(kill: ProvedKill) -> str:
    if not kill.is_hit:
        return "-"
    if kill.resumed_from is None:
        return "cannot be seen"
    if kill.resumed_from == 0:
        return "zero"
    return f"step {kill.resumed_from:,}"


def _run_to(run: ProvedRun) -> str:
    if run.parts:
        return _equal_to(run.parts)
    return run.answer


def _equal_to(parts: Sequence[ProvedPart]) -> str:
    if not any(part.compared for part in parts):
        return "nothing was compared"
    differing = [part for part in parts if part.kind == "differs" or part.ends_at is not None]
    if not differing:
        if unknown := [part.name for part in parts if part.kind == "not comparable"]:
            return f"not known of {', '.join(unknown)}"
        is_within = any(part.kind == "within" for part in parts)
        return "the end, as far as allowed" if is_within else "the end, bit for bit"
    steps = [part.equal_to for part in differing if part.equal_to is not None]
    if steps:
        return f"step {min(steps):,}" if min(steps) else "not even its first step"
    if all(part.kind != "differs" for part in differing):
        return "not in its last step"
    return f"not in {', '.join(part.name for part in differing)}"


def _details(answer: ProveAnswer) -> list[str]:
    """Of the worst run: the first and the largest differences, and what is true of it, too."""
    decisive = next((run for run in answer.runs if run.answer == answer.answer and run.reason == answer.reason), None)
    parts = decisive.parts if decisive else answer.pair if answer.answer == "not deterministic in itself" else []
    lines: list[str] = []
    for part in parts:
        if part.kind not in ("differs", "within"):
            continue
        lines += _wrapped(f"{part.name}: {part.differing:,} of {part.compared:,} differ", "  ")
        told: dict[str, str] = {}
        for label, one in (
            ("first", part.first),
            ("largest absolute", part.largest_absolute),
            ("largest relative", part.largest_relative),
            ("largest in ULP", part.largest_ulp),
        ):
            if one is not None and not (label == "first" and f"first: {_place(one)}: " in answer.reason):
                text = _difference(one)
                told[text] = f"{told[text]}, {label}" if text in told else label
        for text, label in told.items():
            lines += _wrapped(f"{label}: {text}", "    ", "      ")
    for text in decisive.also if decisive else []:
        lines += _wrapped(f"also: {text}", "  ")
    others = [run for run in answer.runs if run is not decisive and run.answer != answer.answer]
    for run in others:
        lines += _wrapped(f"{run.name}: {run.answer}: {run.reason}", "  ")
    return lines


def _difference(one: ProvedDifference) -> str:
    values = f"{one.undisturbed[:60]} against {one.resumed[:60]}" if one.undisturbed or one.resumed else ""
    distances = [f"absolute {one.absolute:.3g}"] if one.absolute is not None else []
    distances += [f"relative {one.relative:.3g}"] if one.relative is not None else []
    distances += [f"{one.ulp:,} ULP"] if one.ulp is not None else []
    return f"{_place(one)}: " + ", ".join(part for part in (values, one.reason, *distances) if part)


def _place(one: ProvedDifference) -> str:
    """As it stands in the reason of an answer, too."""
    return ", ".join(part for part in (f"step {one.step}" if one.step is not None else "", one.where, one.what) if part)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows under headings; a cell may have several lines.

    >>> table(["A", "B"], [["1", "x"], ["22", "y"]])
    ['A   B', '1   x', '22  y']
    """
    cells = [[[_plain(line) for line in cell.split("\n")] for cell in row] for row in [headings, *rows]]
    widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(headings))]
    lines = []
    for row in cells:
        for k in range(max(len(cell) for cell in row)):
            texts = [(cell[k] if k < len(cell) else "").ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append((" " * _GAP).join(texts).rstrip())
    return lines


def _field(name: str, text: str) -> list[str]:
    return _wrapped(f"{name:<10}{text}", "", " " * 10)


def _wrapped(text: str, first: str = "", following: str | None = None) -> list[str]:
    rest = first + "  " if following is None else following
    return textwrap.wrap(
        _plain(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _plain(text: str) -> str:
    """On one line, and unable to play tricks with a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
