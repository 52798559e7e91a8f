"""The `lastgood` command: picks the module of a command and turns errors into messages and exit codes.

Only the chosen command's module is imported, so that `lastgood --help` answers at once. argparse is used
because it starts in a fraction of the time of richer libraries, and a launcher starts at every attempt.
"""

import argparse
import sys
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Type checkers know this name. Importing `typing` would cost a fifth of an interpreter's start.
    from typing import Any, NoReturn

COMMANDS: dict[str, str] = {
    "run": "run a command as a job: watch it, restart it, resume it",
    "submit": "write the batch script of a job, and submit it to Slurm",
    "script": "print the batch script that submit would submit",
    "status": "what a job is doing, and what its attempts did",
    "history": "what became of each attempt, by our journals and by Slurm",
    "report": "all about a job: where the time went, what was saved and lost, how it compares with the plan",
    "ls": "list the checkpoints of a job",
    "show": "what is in a checkpoint",
    "verify": "read checkpoints and check every byte; the exit code answers",
    "prune": "delete checkpoints that need not be kept",
    "pin": "protect a checkpoint from being deleted, or release it",
    "export": "write a checkpoint in a format that other tools read",
    "audit": "what a failure would cost: read batch scripts, manifests and the policy",
    "plan": "how often to save, what a failure costs, and which mechanisms to use",
    "prove": "whether the job gives the same answer after it was killed: run it, kill it, resume it, compare",
    "drill": "cause failures on purpose: does the job come through, and what do they cost",
    "app": "applications with checkpoints of their own: list them, try a description, what is possible without any",
    "fingerprint": "what of this machine and environment can change numbers; or of two attempts, what differs",
    "explain": "what a rule of the audit looks for, why, and what to write instead",
}
"""Each command with its one line. Its module is lastgood.cli.<name>_command, which has
`configure(parser)` and `execute(arguments) -> exit code`."""

HANDING_ON = ("submit", "script")
"""Commands that take options of another program too."""
BEFORE_DASHES = ("app", "fingerprint")
"""Commands whose own options end at `--`: what follows is another command, wherever argparse would see it."""

EPILOG = """\
Exit codes: 0 finished, or yes; 75 progress is saved, run again; 65 damaged; 80 start refused.
All of them: docs/reference/exit-codes.md. Help on one command: lastgood COMMAND --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Standard output is data, standard error is talk.

    Where the output cannot be written to its end, the answer stands, unless it would be 0: that says that
    all went well.
    """
    from lastgood.cli import output
    from lastgood.core.errors import EXIT_OUTPUT_CUT_OFF, StorageError

    code = _answer(list(sys.argv[1:] if argv is None else argv))
    failure = output.finish()
    if isinstance(failure, BrokenPipeError):
        # The reader (such as `head`) has seen enough.
        return code or EXIT_OUTPUT_CUT_OFF
    if failure is not None:
        output.note(f"cannot write the output: {failure.strerror}")
        return code or StorageError.exit_code
    return code


def _answer(arguments: list[str]) -> int:
    from lastgood.cli import output
    from lastgood.core.errors import EXIT_INTERRUPTED, LastgoodError

    try:
        parsed = _parse(arguments)
        return 2 if parsed is None else int(parsed.execute(parsed))
    except SystemExit as end:
        # From argparse, after --help or a mistake; and from a launcher that is told to stop while it waits.
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except LastgoodError as error:
        output.note(str(error))
        return error.exit_code


def _parse(arguments: list[str]) -> argparse.Namespace | None:
    """None if there is no command; then the help is printed."""
    chosen = arguments[0] if arguments else ""
    parser = build_parser(chosen)
    handed_on: list[str] = []
    if chosen in HANDING_ON:
        from lastgood.cli.handing_on import take_out

        own = argparse.ArgumentParser()
        _module(chosen).configure(own)
        arguments, handed_on = take_out(own, arguments)
    elif chosen in BEFORE_DASHES and "--" in arguments:
        at = arguments.index("--")
        arguments, handed_on = arguments[:at], arguments[at + 1 :]
    parsed, unknown = parser.parse_known_args(arguments, argparse.Namespace(handed_on=handed_on))
    if unknown:
        # argparse itself would complain in the name of the top level, and show its usage.
        getattr(parsed, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if not parsed.command:
        parser.print_help()
        return None
    return parsed


class _Parser(argparse.ArgumentParser):
    """One that says where the help is. Its subcommands are made as it is."""

    def error(self, message: str) -> "NoReturn":
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}; see `{self.prog} --help`\n")


def build_parser(chosen: str) -> argparse.ArgumentParser:
    """The parser, with the options of the `chosen` command only; `""` leaves all of them out."""
    parser = _Parser(
        prog="lastgood",
        description="Runs long jobs so that they are cheap to fail: restarted, and resumed from the last good checkpoint.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"lastgood {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, line in COMMANDS.items():
        command = commands.add_parser(
            name, help=line, description=line, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == chosen:
            module = _module(name)
            module.configure(command)
            command.set_defaults(execute=module.execute, parser=command)
    return parser


def _module(command: str) -> "Any":
    return __import__(f"lastgood.cli.{command}_command", fromlist=["configure"])


def _version() -> str:
    from lastgood import __version__

    return __version__
