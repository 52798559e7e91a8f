"""Arguments that several commands share, with one wording."""

import argparse
from collections.abc import Callable

NAMES = "a step (1200: its newest attempt), a step and an attempt (1200-3), or last"


def add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="the job's directory, or the number of a Slurm job that runs it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_optional_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", nargs="?", default="last", help=f"{NAMES} (the default: the last good one)"
    )


def at_least(lowest: int) -> Callable[[str], int]:
    """An argparse type: a whole number not below `lowest`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if number < lowest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {lowest} or more")
        return number

    return parse
