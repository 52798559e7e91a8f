"""Audit many files: find them, read them, ask the rules, in several processes where there are many."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.beside import Programs
from lastgood.audit.discovery import Candidate, discover
from lastgood.audit.engine import Models, audit_models, models_of
from lastgood.audit.finding import Audited, Finding, Problem
from lastgood.audit.fixing import mend, write
from lastgood.audit.policy import Policy
from lastgood.audit.processes import for_each
from lastgood.audit.reading import find_include, load, load_standard_input
from lastgood.audit.recognise import Kind, kind_of
from lastgood.audit.rule import Context, Rule
from lastgood.audit.source import Source, Span
from lastgood.core.errors import LastgoodError

STANDARD_INPUT = "-"
_MOST_ROUNDS = 8
"""One edit can give the place of another, or not mend; this many times a file is audited again."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    paths: tuple[str, ...]
    rules: tuple[Rule, ...]
    policies: tuple[Source, ...] = ()
    """Of the scheduler, beside those among the paths."""
    write_s: float | None = None
    excluded: tuple[str, ...] = ()
    stdin_name: str = STANDARD_INPUT


class Report(msgspec.Struct):
    """What came of all paths."""

    audited: list[Audited]
    """Each file that was named or found, in order; those that are nothing for us have no kinds."""
    problems: list[Problem]
    """Of what is no file."""
    context: Context
    sources: dict[str, Source] = {}
    """Those that cannot be read again."""
    fixed: list[Finding] = []
    """What was mended, and is no finding any more."""
    changes: list[tuple[Source, Source]] = []
    """Files before and after."""


def audit_all(request: Request) -> Report:
    """Raises nothing for what the files hold, or for those that cannot be read."""
    found = discover(request.paths, request.excluded)
    named, others = list[Source](), []
    for candidate in found.candidates:
        source = _load(candidate, request.stdin_name) if candidate.is_named else None
        if isinstance(source, Source) and kind_of(source) is Kind.POLICY:
            named.append(source)
        else:
            others.append((candidate, source if candidate.path == STANDARD_INPUT else None))
    used, clusters = _policies(request.policies, named)
    context = Context(policy=used, write_s=request.write_s)
    report = Report([], found.problems, context)
    report.sources = {source.path: source for _, source in others if isinstance(source, Source)}
    for policy in clusters:
        read = Models(Kind.POLICY, [policy], policy.problems)
        rules_context = msgspec.structs.replace(context, policy=policy)
        report.audited.append(audit_models(policy.source, read, request.rules, rules_context))
    begin = len(report.audited)
    report.audited += for_each(others, _Auditor(request.rules, context, request.stdin_name))
    pairs = zip(others, report.audited[begin:], strict=True)
    filled = {candidate.directory for (candidate, _), audited in pairs if audited.kinds or audited.problems}
    report.problems += [_empty(directory) for directory in found.directories if directory not in filled]
    report.audited += _programs(report.audited, request.rules, context)
    return report


def fix_all(report: Report, request: Request, *, is_written: bool) -> None:
    """Mend what can be mended, and audit those files again; without `is_written` only say what would change."""
    auditor = _Auditor(request.rules, report.context, request.stdin_name)
    for i, audited in enumerate(report.audited):
        if not any(finding.edits for finding in audited.findings) or Kind.POLICY in audited.kinds:
            continue
        before: Source | Problem | None = report.sources.get(audited.path)
        if before is None:
            before = load(audited.path)
        if isinstance(before, Problem):
            audited.problems.append(before)
            continue
        after, again, fixed = before, audited, list[Finding]()
        candidates = audited.findings
        for _ in range(_MOST_ROUNDS):
            changed, mended = mend(after, candidates)
            if not mended:
                break
            found = auditor(Candidate(audited.path, is_named=False), changed)
            if useless := _places(mended) & _places(found.findings):
                # An edit that does not mend what it is for is none that we were sure of.
                candidates = [finding for finding in candidates if not _places([finding]) & useless]
                continue
            after, again, candidates = changed, found, found.findings
            fixed += mended
        if after.data == before.data:
            continue
        report.changes.append((before, after))
        if is_written:
            try:
                write(after, before)
            except LastgoodError as error:
                audited.problems.append(Problem(path=audited.path, message=f"not fixed: {error.what}"))
                continue
            report.audited[i] = again
            report.fixed += fixed


def _places(findings: Sequence[Finding]) -> set[tuple[str, Span]]:
    return {(finding.rule.code, finding.span) for finding in findings}


def _programs(audited: Sequence[Audited], rules: Sequence[Rule], context: Context) -> Iterator[Audited]:
    """The Python programs that the scripts start, each once."""
    known = {os.path.realpath(one.path) for one in audited}
    auditor = _Auditor(rules, context, STANDARD_INPUT)
    for path in sorted({path for one in audited for path in one.programs}):
        real = os.path.realpath(path)
        if real not in known:
            known.add(real)
            yield auditor(Candidate(path, is_named=False))


class _Auditor:
    """Audits one file after the other with the same rules."""

    def __init__(self, rules: Sequence[Rule], context: Context, stdin_name: str) -> None:
        self._programs = Programs()
        self._context = msgspec.structs.replace(
            context, find_program=self._programs.find, read_text=self._programs.read_text
        )
        self._rules = rules
        self._stdin_name = stdin_name

    def __call__(self, candidate: Candidate, source: Source | Problem | None = None) -> Audited:
        if source is None:
            source = _load(candidate, self._stdin_name)
        if isinstance(source, Problem):
            return Audited(path=source.path, findings=[], problems=[source])
        read = models_of(source)
        scripts = [model for model in read.models if isinstance(model, BatchScript)]
        self._programs.begin(source.path, scripts)
        audited = audit_models(source, read, self._rules, self._context)
        if not read.models and not read.problems:
            audited.problems += _nothing_to_audit(read.kind, source, candidate)
        for script in scripts:
            for _, launch in script.launches:
                if launch.python_script:
                    self._programs.find(source.path, launch.python_script)
        audited.programs = tuple(self._programs.found)
        return audited


def _policies(asked_for: Sequence[Source], named: Sequence[Source]) -> tuple[Policy | None, list[Policy]]:
    """(what the scripts are audited with, all that are audited). Files of one cluster are parts of one policy; of several
    clusters that are named, nothing tells which the scripts are for."""
    if sum(Policy([source]).is_whole_cluster for source in named) > 1:
        used = Policy(asked_for, find_include) if asked_for else None
        return used, [*([used] if used is not None else []), *(Policy([source], find_include) for source in named)]
    sources = [*asked_for, *named]
    used = Policy(sources, find_include) if sources else None
    return used, [used] if used is not None else []


def _empty(directory: str) -> Problem:
    message = (
        "nothing to audit in it: no file with `#SBATCH` lines, no Kubernetes manifest; Python is audited where a script "
        "starts it, or where it is named"
    )
    return Problem(path=directory, message=message, is_missing=True)


def _nothing_to_audit(kind: Kind, source: Source, candidate: Candidate) -> Iterator[Problem]:
    if kind is Kind.BINARY:
        message = "a binary file, or a text in UTF-16: not audited"
        yield Problem(path=source.path, message=message, is_partial=not candidate.is_named)
    elif candidate.is_named:
        message = {
            Kind.SHELL: "a shell script without `#SBATCH` lines: not audited, because nothing says that it is a job",
            Kind.MANIFEST: "YAML without a Job, a Pod or another workload of Kubernetes: nothing to audit",
        }.get(kind, "neither a batch script, a Kubernetes manifest, Python nor Slurm's configuration: not audited")
        if not source.data.strip():
            message = "an empty file: nothing to audit"
        # A hook names all scripts and all YAML that there is.
        is_passed_over = kind in (Kind.SHELL, Kind.MANIFEST) and bool(source.data.strip())
        is_missing = not is_passed_over or candidate.path == STANDARD_INPUT
        yield Problem(path=source.path, message=message, is_partial=True, is_nothing=True, is_missing=is_missing)


def _load(candidate: Candidate, stdin_name: str) -> Source | Problem:
    if candidate.path == STANDARD_INPUT:
        return load_standard_input(stdin_name)
    return load(candidate.path)
