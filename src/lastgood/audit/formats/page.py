"""A rule's page: for the documentation, and for a terminal."""

from collections.abc import Iterator, Sequence

from lastgood.audit.engine import audit, context_for_example
from lastgood.audit.finding import Audited
from lastgood.audit.formats.terminal import Style, wrapped
from lastgood.audit.formats.text import Shown, findings_of
from lastgood.audit.rule import FAMILIES, Rule
from lastgood.audit.source import Source

_FILES = {
    "BatchScript": ("job.sh", "bash", "batch scripts"),
    "Manifest": ("job.yaml", "yaml", "Kubernetes manifests"),
    "Program": ("train.py", "python", "Python programs"),
    "Policy": ("slurm.conf", "ini", "the scheduler's settings"),
    "Comments": ("job.sh", "bash", "all files"),
}
"""By the model that a rule reads: the name of an example, its language, and what is read."""


def markdown(rule: Rule, notice: str) -> str:
    """The page as the documentation has it."""
    name, language, what = _FILES[rule.reads.__name__]
    lines = [f"# {rule.code}: {rule.name}", "", notice]
    lines += [f"Severity: {rule.severity}. Family: {rule.family}. Read from {what}.", "", rule.what, ""]
    lines += ["## Why", "", rule.why, "", "## Example", ""]
    if rule.policy:
        lines += ["With these settings in slurm.conf:", "", "```ini", rule.policy.rstrip("\n"), "```", ""]
    if rule.write_s is not None:
        lines += [f"With `--write {rule.write_s:g}s`:", ""]
    lines += [f"```{language}", rule.bad.rstrip("\n"), "```", ""]
    lines += ["```text", f"$ lastgood audit {name}", *_shown(rule, name), "```", ""]
    lines += ["## Better", "", f"```{language}", rule.good.rstrip("\n"), "```", ""]
    lines += ["## When it is safe to ignore", "", rule.safe_to_ignore, ""]
    if not rule.safe_to_ignore.startswith("Never"):
        lines += [f"Then say so in the file: `# lastgood: ignore {rule.code} because ...`", ""]
    lines += ["## Source", "", rule.source, ""]
    return "\n".join(lines)


def index(rules: Sequence[Rule], notice: str) -> str:
    """The page that lists them all."""
    lines = ["# Rules of `lastgood audit`", "", notice]
    lines += [f"{len(rules)} rules. `lastgood explain CODE` prints a page in the terminal;"]
    lines += ["[how to use them](../how-to/audit.md) says the rest.", ""]
    for digit, family in FAMILIES.items():
        own = [rule for rule in rules if rule.code[2] == digit]
        if own:
            lines += [
                f"## LG{digit}: {family}",
                "",
                "| code | name | severity | what it looks for |",
                "|---|---|---|---|",
            ]
            lines += [
                f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {rule.what.replace('|', chr(92) + '|')} |"
                for rule in own
            ]
            lines.append("")
    return "\n".join(lines)


def in_terminal(rule: Rule, style: Style, width: int = 80) -> Iterator[str]:
    """The page as `lastgood explain` prints it, line by line."""
    name, _, what = _FILES[rule.reads.__name__]
    yield f"{style.bold(rule.code)} {rule.name}: {style.severity(rule.severity, str(rule.severity))}"
    yield f"family {rule.family}, read from {what}"
    yield from _part("", rule.what, width)
    yield from _part(style.bold("why"), rule.why, width)
    if rule.policy:
        yield from _file(style.bold("with these settings in slurm.conf"), rule.policy)
    yield from _file(style.bold("example"), rule.bad)
    yield from ["", *("  " + line if line else line for line in _shown(rule, name, style, width - 2))]
    yield from _file(style.bold("better"), rule.good)
    yield from _part(style.bold("when it is safe to ignore"), rule.safe_to_ignore, width)
    if not rule.safe_to_ignore.startswith("Never"):
        yield from wrapped(f"then say so: # lastgood: ignore {rule.code} because ...", width)
    yield from _part(style.bold("source"), rule.source, width)


def listing(rules: Sequence[Rule], style: Style, width: int = 80) -> Iterator[str]:
    """All rules, one a line, by family."""
    longest = max((len(rule.name) for rule in rules), default=0)
    for digit, family in FAMILIES.items():
        own = [rule for rule in rules if rule.code[2] == digit]
        if own:
            yield style.bold(family)
            for rule in own:
                yield f"  {rule.code}  {rule.name.ljust(longest)}  {rule.severity}"


def _shown(rule: Rule, name: str, style: Style | None = None, width: int = 80) -> list[str]:
    """What an audit says of the bad example."""
    audited = audit(Source(name, rule.bad.encode()), [rule], context_for_example(rule))
    alone = Audited(path=name, findings=audited.findings, problems=[])
    lines = list(findings_of(alone, style or Style(False), width, Shown(explained=[rule.code])))
    return lines[:-1] if lines and not lines[-1] else lines


def _part(heading: str, text: str, width: int) -> Iterator[str]:
    yield ""
    if heading:
        yield heading
    for paragraph in text.split("\n"):
        yield from wrapped(paragraph, width)


def _file(heading: str, text: str) -> Iterator[str]:
    yield ""
    yield heading
    for line in text.rstrip("\n").split("\n"):
        yield f"  | {line}".rstrip()
