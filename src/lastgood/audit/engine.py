"""Read files, find out what they are, ask the rules."""

import traceback
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from lastgood.audit.batch.misplaced import late_directives, misspelled_directives
from lastgood.audit.batch.script import BatchScript, scripts_in
from lastgood.audit.finding import Audited, Excerpt, Finding, Problem
from lastgood.audit.policy import Policy
from lastgood.audit.python.program import Program
from lastgood.audit.recognise import Kind, interpreter, kind_of
from lastgood.audit.rule import Context, Hit, Rule
from lastgood.audit.source import Source, Span
from lastgood.audit.suppression import Comments, silence
from lastgood.core.units import byte_size

_LONGEST_LINE = 600
_LONGEST_MESSAGE = 500
_BEFORE_THE_PLACE = 200
_MOST_BYTES = 1_000_000
"""Of scripts and programs: a hundred times what people write."""
_MOST_COMMANDS = 10_000
"""Rules look at commands together: twice as many take four times as long."""
_LIKE_BASH = ("", "bash", "sh", "dash", "ksh", "zsh")


class Models(msgspec.Struct):
    """What a file was read as, and what of it could not be."""

    kind: Kind
    models: list[object]
    problems: list[Problem]


def audit(source: Source, rules: Sequence[Rule], context: Context) -> Audited:
    """Ask every rule that reads this kind of file. Raises nothing for what the file holds."""
    return audit_models(source, models_of(source), rules, context)


def models_of(source: Source) -> Models:
    """The file as rules see it: as nothing, if it is nothing that they know."""
    kind = kind_of(source)
    read = Models(kind, [], [])
    if kind in (Kind.BATCH, Kind.PROGRAM) and len(source.data) > _MOST_BYTES:
        message = (
            f"a file of {byte_size(len(source.data))}: those of more than {byte_size(_MOST_BYTES)} are not audited"
        )
        read.problems.append(Problem(path=source.path, message=message))
        return read
    match kind:
        case Kind.BATCH:
            _read_batch(source, read)
        case Kind.MANIFEST:
            _read_manifest(source, read)
        case Kind.PROGRAM:
            _read_program(source, read)
        case Kind.POLICY:
            policy = Policy([source])
            read.models.append(policy)
            read.problems += policy.problems
    return read


def audit_models(source: Source, read: Models, rules: Sequence[Rule], context: Context) -> Audited:
    audited = Audited(path=source.path, findings=[], problems=list(read.problems))
    audited.kinds = (str(read.kind),) if read.models else ()
    sources: Sequence[Source] = (source,)
    for model in read.models:
        if isinstance(model, Policy):
            # It may have been read from several files.
            sources = model.files
        for rule in rules:
            if rule.reads is type(model):
                _ask(rule, model, context, sources, audited)
    if read.models:
        audited.files = tuple(dict.fromkeys(one.path for one in sources))
        for one in sources:
            _silence(Comments(one), rules, context, audited)
    audited.findings.sort(key=lambda finding: (finding.path, finding.span, finding.rule.code))
    return audited


def _silence(comments: Comments, rules: Sequence[Rule], context: Context, audited: Audited) -> None:
    if not comments.comments:
        return
    silence(audited, comments, [rule.code for rule in rules])
    for rule in rules:
        if rule.reads is Comments:
            _ask(rule, comments, context, (comments.source,), audited)


def excerpt_of(source: Source, span: Span) -> Excerpt:
    """The line of a place, or the part of it that can be looked at."""
    text = source.line(span.line)
    if len(text) <= _LONGEST_LINE:
        return Excerpt(text)
    begin = max(0, min(span.column - 1 - _BEFORE_THE_PLACE, len(text) - _LONGEST_LINE))
    return Excerpt(text[begin : begin + _LONGEST_LINE], begin + 1, is_cut=begin + _LONGEST_LINE < len(text))


def _read_batch(source: Source, read: Models) -> None:
    program = interpreter(source)
    if program not in _LIKE_BASH:
        message = f"a batch script for {program}: only those for bash and sh are understood, so it was not audited"
        read.problems.append(Problem(path=source.path, message=message, span=Span(1, 1, 1, 1), is_partial=True))
        return
    whole = BatchScript(source)
    if len(whole.commands) > _MOST_COMMANDS:
        message = f"a script of {len(whole.commands)} commands: those of more than {_MOST_COMMANDS} are not audited"
        read.problems.append(Problem(path=source.path, message=message))
        return
    for script in scripts_in(whole):
        if script.header.directives or late_directives(script) or any(misspelled_directives(script)):
            read.models.append(script)
            read.problems += _not_understood(script)


def _not_understood(script: BatchScript) -> Iterator[Problem]:
    """The smallest place that the parser did not understand; it takes much of what is around it for broken, too."""
    places = script.shell.unreadable
    if places:
        place = min(places, key=lambda span: (span.end_line - span.line, span))
        message = "this was not understood as bash: what depends on it was not audited"
        yield Problem(path=script.path, message=message, span=place, is_partial=True)


def _read_manifest(source: Source, read: Models) -> None:
    from lastgood.audit.kubernetes.reading import looks_like_manifest, read_manifests

    if looks_like_manifest(source):
        manifests, problems = read_manifests(source)
        read.models += manifests
        read.problems += problems


def _read_program(source: Source, read: Models) -> None:
    try:
        read.models.append(Program(source))
    except SyntaxError as error:
        line = min(max(error.lineno or 1, 1), source.line_count)
        column = max(error.offset or 1, 1)
        message = f"this is no Python that {_version()} reads: {error.msg}"
        read.problems.append(Problem(path=source.path, message=message, span=Span(line, column, line, column)))
    except (ValueError, RecursionError, MemoryError) as error:
        message = f"this cannot be read as Python: {error}"
        read.problems.append(Problem(path=source.path, message=message))


def _version() -> str:
    import platform

    return f"Python {platform.python_version()}"


def _ask(rule: Rule, model: object, context: Context, sources: Sequence[Source], audited: Audited) -> None:
    try:
        audited.findings += _findings(rule, rule.check(model, context), sources)
    except Exception as error:  # noqa: BLE001 - a defect of one rule must not hide what the others find
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        message = f"rule {rule.code} failed here, which is a defect of lastgood: {what} ({where}); please report it"
        audited.problems.append(Problem(path=audited.path, message=message))


def _findings(rule: Rule, hits: Iterable[Hit], sources: Sequence[Source]) -> Iterator[Finding]:
    for hit in hits:
        source = next((source for source in sources if source.path == hit.path), sources[0])
        yield Finding(
            rule=rule,
            path=source.path,
            span=hit.span,
            severity=rule.severity if hit.severity is None else hit.severity,
            message=_short(hit.message),
            remedy=_short(hit.remedy),
            edits=hit.edits,
            edits_at=tuple(source.span(edit.begin, edit.end) for edit in hit.edits),
            excerpt=excerpt_of(source, hit.span),
        )


def _short(text: str) -> str:
    """Rules quote what they found, which may be of any length."""
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."


def context_for_example(rule: Rule) -> Context:
    """What a rule's examples are audited with."""
    policy = Policy([Source("slurm.conf", rule.policy.encode())]) if rule.policy else None
    return msgspec.structs.replace(Context(), policy=policy, write_s=rule.write_s)
