"""Read files, find out what they are, ask the rules."""

from collections.abc import Iterable, Sequence

import msgspec

from lastgood.audit.batch.script import BatchScript, scripts_in
from lastgood.audit.finding import Audited, Finding
from lastgood.audit.rule import Context, Rule
from lastgood.audit.source import Source


def audit(source: Source, rules: Sequence[Rule], context: Context) -> Audited:
    """Ask every rule that reads this kind of file. Raises nothing for what the file holds."""
    audited = Audited(path=source.path, findings=[], problems=[])
    models = list(_models(source))
    audited.kinds = tuple(dict.fromkeys(type(model).__name__ for model in models))
    for model in models:
        for rule in rules:
            if rule.reads is type(model):
                audited.findings += _ask(rule, model, context)
    audited.findings.sort(key=lambda finding: (finding.span, finding.rule.code))
    return audited


def _models(source: Source) -> Iterable[object]:
    yield from scripts_in(BatchScript(source))


def _ask(rule: Rule, model: object, context: Context) -> Iterable[Finding]:
    path = getattr(model, "path", "")
    for hit in rule.check(model, context):
        yield Finding(
            rule=rule,
            path=path,
            span=hit.span,
            severity=rule.severity if hit.severity is None else hit.severity,
            message=hit.message,
            remedy=hit.remedy,
            edits=hit.edits,
        )


def context_for_example(rule: Rule) -> Context:
    """What a rule's examples are audited with."""
    from lastgood.audit.policy import Policy

    policy = Policy([Source("slurm.conf", rule.policy.encode())]) if rule.policy else None
    return msgspec.structs.replace(Context(), policy=policy, write_s=rule.write_s)
