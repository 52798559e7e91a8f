"""The `lastgood` command: picks the module of a command and turns errors into messages and exit codes.

Only the chosen command's module is imported, so that `lastgood --help` answers at once. argparse is used
because it starts in a fraction of the time of richer libraries, and a launcher starts at every attempt.
"""

import argparse
import sys
from collections.abc import Sequence

COMMANDS: dict[str, str] = {
    "run": "run a command as a job: watch it, restart it, resume it",
    "status": "what a job is doing, and what its attempts did",
    "ls": "list the checkpoints of a job",
    "show": "what is in a checkpoint",
    "verify": "read checkpoints and check every byte; the exit code answers",
    "prune": "delete checkpoints that need not be kept",
    "pin": "protect a checkpoint from being deleted, or release it",
    "export": "write a checkpoint in a format that other tools read",
}
"""Each command with its one line. Its module is lastgood.cli.<name>_command, which has
`configure(parser)` and `execute(arguments) -> exit code`."""

EPILOG = """\
Exit codes: 0 finished, or yes; 75 progress is saved, run again; 65 damaged; 80 start refused.
All of them: docs/reference/exit-codes.md. Help on one command: lastgood COMMAND --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Standard output is data, standard error is talk."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(arguments[0] if arguments else "")
    parsed = parser.parse_args(arguments)
    if not parsed.command:
        parser.print_help()
        return 2
    try:
        return int(parsed.execute(parsed))
    except BrokenPipeError:
        # The reader of our output (such as `head`) has seen enough.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from lastgood.core.errors import LastgoodError

        if not isinstance(error, LastgoodError):
            raise
        print(f"lastgood: {error}", file=sys.stderr)
        return error.exit_code


def build_parser(chosen: str) -> argparse.ArgumentParser:
    """The parser, with the options of the `chosen` command only; `""` leaves all of them out."""
    parser = argparse.ArgumentParser(
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
            module = __import__(f"lastgood.cli.{name}_command", fromlist=["configure"])
            module.configure(command)
            command.set_defaults(execute=module.execute)
    return parser


def _version() -> str:
    from lastgood import __version__

    return __version__
