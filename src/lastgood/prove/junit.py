"""A proof as JUnit XML: one test case for each comparison. Pure."""

import re
from xml.sax.saxutils import escape, quoteattr

from lastgood.core.quoting import shown_command
from lastgood.prove.document import ProveAnswer, ProvedPart, ProvedRun
from lastgood.prove.page import page

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""


def junit(answer: ProveAnswer) -> str:
    """The document. A difference is a failure, what cannot be told an error."""
    name = shown_command(answer.command)
    cases: list[str] = []
    failures = errors = 0
    for run_name, answered, reason, took_s, part in _cases(answer):
        verdict = _judged(part) if part is not None else answered
        title = f"{run_name}: {part.name if part is not None else 'resumes'}"
        head = f"    <testcase classname={_attribute(name)} name={_attribute(title)} time={_attribute(f'{took_s:.3f}')}"
        if verdict in ("identical", "within tolerance"):
            cases.append(f"{head}/>")
            continue
        kind = "error" if verdict == "unknown" else "failure"
        errors += kind == "error"
        failures += kind == "failure"
        text = _text(reason if part is None else _told(part))
        cases.append(
            f"{head}>\n      <{kind} type={_attribute(verdict)} message={_attribute(reason)}>{text}</{kind}>\n    </testcase>"
        )
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="0"'
    total_s = answer.took_s + sum(run.took_s for run in answer.runs)
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="lastgood prove" {counts} time="{total_s:.3f}">',
            f'  <testsuite name={_attribute(name)} {counts} time="{total_s:.3f}">',
            *cases,
            f"    <system-out>{_text(page(answer))}</system-out>",
            "  </testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _cases(answer: ProveAnswer) -> list[tuple[str, str, str, float, ProvedPart | None]]:
    """Each as the run, its answer with its reason, its seconds, and what was compared; None: how it came through."""
    if not answer.runs:
        return [("undisturbed", answer.answer, answer.reason, answer.took_s, None)]
    found: list[tuple[str, str, str, float, ProvedPart | None]] = [
        ("undisturbed-2", answer.answer, _told(part), answer.took_s, part) for part in answer.pair
    ]
    for run in answer.runs:
        found.append((run.name, _came_through(run), run.reason, run.took_s, None))
        found += [(run.name, run.answer, _told(part), 0.0, part) for part in run.parts]
    return found


def _came_through(run: ProvedRun) -> str:
    """What differs has cases of its own."""
    has_cases = any(_judged(part) == "diverged" for part in run.parts)
    return "identical" if has_cases and run.answer in ("diverged", "not deterministic in itself") else run.answer


def _judged(part: ProvedPart) -> str:
    if part.ends_at is not None:
        return "diverged"
    return {"identical": "identical", "within": "within tolerance", "differs": "diverged"}.get(part.kind, "unknown")


def _told(part: ProvedPart) -> str:
    if part.kind == "not comparable":
        return "; ".join(part.notes) or "cannot be compared"
    first = part.first
    text = f"{part.differing:,} of {part.compared:,} {part.name} differ"
    if part.ends_at is not None:
        text = f"it ended at step {part.ends_at}, the undisturbed run at step {part.should_end_at}; {text}"
    if first is None:
        return text
    where = f"step {first.step}, " if first.step is not None else ""
    return f"{text}; first: {where}{first.what}: {first.undisturbed} against {first.resumed} {first.reason}".rstrip()


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
