"""`lastgood audit`: what a failure would cost the jobs that these files describe."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastgood.audit.formats.terminal import Style
    from lastgood.audit.run import Report, Request
    from lastgood.audit.source import Source

LIVE = "live"
FORMATS = ("text", "json", "sarif", "github")
THRESHOLDS = {"lost": 4, "may": 3, "wasteful": 2, "note": 1}
"""What --fail-on says, as severities."""

EPILOG = """\
examples:
  lastgood audit job.sh
  lastgood audit --policy /etc/slurm/slurm.conf --write 5min jobs/
  lastgood explain LG101

A directory is searched for batch scripts (*.sh, *.sbatch, *.slurm, *.job,
*.bash, and files with #SBATCH near the top), Kubernetes manifests (*.yaml,
*.yml) and the Python programs that the scripts start. A comment silences a
finding on its line or the next one:
  # lastgood: ignore LG101 because we resubmit by hand

exit codes:
   0  nothing that is at least as bad as --fail-on says
   1  something is
   2  the call is wrong
  65  no finding, but something could not be read or audited
  66  no finding, but a path does not exist, or holds nothing to audit
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="batch scripts, Kubernetes manifests, Python programs, slurm.conf or what scontrol show printed; "
        "directories; - for standard input",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        action="append",
        default=[],
        help="the scheduler's settings: slurm.conf, or what `scontrol show config`, `scontrol show partition` or "
        "`sacctmgr -P show qos` printed; "
        f"may be repeated; `{LIVE}` asks scontrol",
    )
    parser.add_argument(
        "--write", metavar="DURATION", default="", help="how long a checkpoint takes to write, such as 5min"
    )
    parser.add_argument(
        "--select",
        metavar="CODES",
        action="append",
        default=[],
        help="only these rules: LG101, LG1, a name or a family",
    )
    parser.add_argument("--ignore", metavar="CODES", action="append", default=[], help="all rules but these")
    parser.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        default=[],
        help="in directories: pass over names or paths like this",
    )
    parser.add_argument(
        "--fail-on",
        choices=list(THRESHOLDS),
        default="may",
        help="the least severity that makes the exit code 1 (default: may)",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="how to print (default: text)")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    parser.add_argument("--fix", action="store_true", help="mend what can be mended without a doubt, and audit again")
    parser.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")
    parser.add_argument("--stdin-name", metavar="NAME", default="-", help="what to call standard input")
    parser.epilog = EPILOG


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.audit.run import audit_all, fix_all

    request = _request(parsed)
    report = audit_all(request)
    if parsed.fix or parsed.diff:
        fix_all(report, request, is_written=parsed.fix and not parsed.diff)
    _print(report, request, parsed)
    return _exit_code(report, THRESHOLDS[parsed.fail_on])


def _request(parsed: argparse.Namespace) -> "Request":
    from lastgood.audit.needs import check_parsers
    from lastgood.audit.rules import all_rules
    from lastgood.audit.run import STANDARD_INPUT, Request
    from lastgood.audit.selection import select, words_of
    from lastgood.core.errors import UsageError
    from lastgood.core.units import parse_duration

    if not parsed.paths and not parsed.policy:
        raise UsageError(
            "no path to audit is given", remedy="lastgood audit job.sh, or lastgood audit . for a directory"
        )
    if parsed.fix and STANDARD_INPUT in parsed.paths:
        raise UsageError("standard input cannot be fixed", remedy="--diff shows what to change")
    if parsed.diff and parsed.format != "text":
        raise UsageError(f"--diff prints a diff, not {parsed.format}", remedy="leave out one of the two")
    check_parsers()
    write_s = parse_duration(parsed.write) if parsed.write else None
    rules = select(all_rules(), words_of(parsed.select), words_of(parsed.ignore))
    return Request(
        paths=tuple(parsed.paths),
        rules=rules,
        policies=tuple(source for name in parsed.policy for source in _policy(name)),
        write_s=write_s,
        excluded=tuple(parsed.exclude),
        stdin_name=parsed.stdin_name,
    )


def _policy(name: str) -> "list[Source]":
    """Raises NoSuchJobError or DamagedError: what was asked for by name is needed."""
    from lastgood.audit.finding import Problem
    from lastgood.audit.policy import Policy
    from lastgood.audit.reading import find_include, load
    from lastgood.audit.recognise import Kind, kind_of
    from lastgood.audit.source import Source
    from lastgood.cli import output
    from lastgood.core.errors import DamagedError, NoSuchJobError

    if name == LIVE:
        from lastgood.schedulers.slurm_commands import SlurmCommands

        shown = SlurmCommands(dict(os.environ)).show_policy()
        return [Source(command, text.encode()) for command, text in shown.items()]
    source = load(name)
    if isinstance(source, Problem):
        kind = NoSuchJobError if source.is_missing else DamagedError
        raise kind(f"cannot use {output.plain(name)} as the policy: {source.message}")
    known = Policy([source], find_include) if kind_of(source) in (Kind.POLICY, Kind.OTHER) else None
    if known is None or not (known.settings or known.partitions or known.qos):
        raise DamagedError(
            f"{output.plain(name)} is neither slurm.conf nor what `scontrol show config` or `scontrol show partition` printed",
            remedy="scontrol show config > policy.txt; scontrol show partition >> policy.txt",
        )
    return [source]


def _print(report: "Report", request: "Request", parsed: argparse.Namespace) -> None:
    from lastgood.cli import output

    if parsed.diff:
        _print_changes(report)
    elif parsed.format == "json":
        from lastgood.audit.formats.json_answer import audit_answer

        output.put_json(audit_answer(report.audited, report.problems, report.fixed))
    elif parsed.format == "sarif":
        from lastgood import __version__
        from lastgood.audit.formats.sarif import sarif_of

        output.put_json(sarif_of(report.audited, report.problems, request.rules, __version__))
    elif parsed.format == "github":
        from lastgood.audit.formats.github import github_of

        output.put("\n".join(github_of(report.audited, report.problems)))
    else:
        from lastgood.audit.formats.text import text_of
        from lastgood.audit.rule import Severity

        shown = text_of(
            report.audited,
            report.problems,
            style(),
            fixed=len(report.fixed),
            least_in_full=Severity(THRESHOLDS[parsed.fail_on]),
        )
        output.put("\n".join(shown))


def _print_changes(report: "Report") -> None:
    """The diff is data, to be piped into `patch`; what else there is to say is talk."""
    from lastgood.audit.fixing import difference
    from lastgood.audit.formats.terminal import harmless
    from lastgood.audit.formats.text import summary
    from lastgood.cli import output

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    for before, after in report.changes:
        for line in difference(before, after):
            if is_terminal:
                output.put("\t".join(map(harmless, line.split("\t"))))
            else:
                output.put_bytes(line.encode("utf-8", "surrogateescape") + b"\n")
    output.note(summary(report.audited, report.problems))


def style() -> "Style":
    """Colours in a terminal, unless NO_COLOR says otherwise."""
    from lastgood.audit.formats.terminal import Style

    is_terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return Style(is_terminal and not os.environ.get("NO_COLOR"))


def _exit_code(report: "Report", threshold: int) -> int:
    from lastgood.core.errors import EXIT_FINDINGS, DamagedError, NoSuchJobError

    if any(finding.severity >= threshold for one in report.audited for finding in one.findings):
        return EXIT_FINDINGS
    problems = [*report.problems, *(problem for one in report.audited for problem in one.problems)]
    serious = [problem for problem in problems if not problem.is_partial]
    if not serious and not any(one.kinds for one in report.audited):
        serious = [problem for problem in problems if problem.is_missing]
    if serious:
        is_missing = all(problem.is_missing for problem in serious)
        return NoSuchJobError.exit_code if is_missing else DamagedError.exit_code
    return 0
