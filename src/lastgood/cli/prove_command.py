"""`lastgood prove`: whether a job gives the same answer after it was killed."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lastgood.prove.difference import Tolerance
    from lastgood.prove.runner import Request
    from lastgood.trial.target import Way

EPILOG = """\
The command runs twice undisturbed and --kills times with SIGKILL and a resume, each time in a copy of the directory.
Compared are logged values at matched steps, final files, and saved state. Exit code: 0 equal, or within the tolerance;
1 not; 3 what was tried does not tell.

How the killed command is started again: under `lastgood run` if it uses the library, or if --app or --checkpoints is
given (its options are passed on); otherwise by the same command line, or by --resume-command. {run} in the command
stands for the directory in which a run works.

examples:
  lastgood prove -- python train.py
  lastgood prove --again --value 'loss=loss ([-0-9.e]+)' --file 'out/*.npz' -- python train.py
  lastgood prove --checkpoints 'out/*.pt' --resume-arg '--resume {checkpoint}' -- python train.py
  lastgood prove --app gromacs --rtol 1e-5 -- gmx mdrun -s topol.tpr -reprod
  lastgood prove --kills 5 --junit proof.xml -- python train.py
  lastgood prove --compare runs/first runs/again
"""
RUN_OPTIONS = ("app", "checkpoints", "resume_arg", "save_every", "grace", "hang_timeout", "restart_on")
"""Options of `lastgood run` that are passed on."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "lastgood prove [options] [options of lastgood run] -- COMMAND [ARGUMENT ...]\n"
        "       lastgood prove --compare A B [--rtol X] [--atol X] [--json]"
    )
    parser.epilog = EPILOG
    add = parser.add_argument
    add("--kills", type=int, default=2, metavar="N", help="how many runs are killed (default: 2)")
    add("--seed", type=int, default=0, metavar="N", help="chooses the steps of the kills (default: 0)")
    add("--limit", default="1h", metavar="DURATION", help="for each run: then it is ended (default: 1h)")
    add("--directory", default=".", metavar="DIR", help="what each run gets a copy of, and works in (default: here)")
    add("--leave-out", action="append", default=[], metavar="GLOB", help="names of what is not copied; may be repeated")
    add("--through-links", action="store_true", help="links to directories elsewhere are followed, although every run can "
        "write into these")  # fmt: skip
    add("--keep", metavar="DIR", help="keep the runs and their output there (default: a temporary directory, kept where "
        "the answer is not \"identical\")")  # fmt: skip
    again = parser.add_argument_group("how it resumes")
    again.add_argument("--again", action="store_true", help="by the same command line: it finds its own checkpoints")
    again.add_argument("--resume-command", metavar="COMMAND", help="by this command line, split as a shell would")
    again.add_argument("--app", metavar="NAME|FILE.toml", help="as for lastgood run: an application that is known")
    again.add_argument("--checkpoints", metavar="GLOB", help="as for lastgood run: where its checkpoints are")
    again.add_argument("--resume-arg", metavar="TEMPLATE", help="as for lastgood run: what to add to resume")
    for name in ("--save-every", "--grace", "--hang-timeout", "--restart-on"):
        again.add_argument(name, metavar="VALUE", help="as for lastgood run")
    again.add_argument("--standby", action="store_true", help="as for lastgood run")
    what = parser.add_argument_group("what is compared")
    what.add_argument("--step-pattern", default="", metavar="REGEX", help="finds the step in a line of output, in its "
        "first group or the one named step (default: guessed; the library tells by itself)")  # fmt: skip
    what.add_argument("--value", action="append", default=[], metavar="NAME=REGEX", help="a value in the output, in the "
        "first group; may be repeated (default: what run.log recorded, or every number beside a step)")  # fmt: skip
    what.add_argument("--file", action="append", default=[], metavar="GLOB", help="final files; may be repeated "
        "(default: what both undisturbed runs have written alike)")  # fmt: skip
    what.add_argument("--rtol", type=float, default=0.0, metavar="X", help="allowed relative difference (default: 0)")
    what.add_argument("--atol", type=float, default=0.0, metavar="X", help="allowed absolute difference (default: 0)")
    what.add_argument("--statistical", action="append", default=[], metavar="NAME[:ERROR]", help="a value of a Monte "
        "Carlo job, with the name of its standard error: compared by --bound; may be repeated")  # fmt: skip
    what.add_argument("--bound", type=float, default=3.0, metavar="X", help="allowed standard errors (default: 3)")
    add("--compare", nargs=2, metavar=("A", "B"), help="run nothing: hold two jobs, files or directories that are there "
        "against each other")  # fmt: skip
    add("--junit", metavar="FILE", help="write the answer as JUnit XML, too")
    add("--json", action="store_true", help="print JSON instead of text")
    add("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments")


def execute(parsed: argparse.Namespace) -> int:
    import os
    import tempfile
    from pathlib import Path

    from lastgood.cli import output
    from lastgood.cli.prove_text import Progress
    from lastgood.core.errors import EXIT_INTERRUPTED
    from lastgood.prove.documenting import document_of
    from lastgood.prove.junit import junit
    from lastgood.prove.page import page
    from lastgood.prove.runner import prove
    from lastgood.prove.verdict import Answer
    from lastgood.trial.deferring import EndedError, deferred_signals, ending_by_exception
    from lastgood.trial.links import told_links_out
    from lastgood.trial.place import remove

    if parsed.compare:
        return _compare(parsed)
    root = Path(parsed.keep) if parsed.keep else None
    request = _request(parsed, root or Path())
    if links := told_links_out(request.target):
        output.note(output.plain(links))
    if root is None:
        root = Path(tempfile.mkdtemp(prefix="lastgood-prove-"))
    else:
        _make_new(root)
    root = root.resolve()
    is_kept = bool(parsed.keep)
    progress = Progress(os.isatty(2))
    with ending_by_exception():
        try:
            proof = prove(_with_root(request, root), progress.look, progress.tell)
            is_kept = bool(parsed.keep) or proof.verdict.answer is not Answer.IDENTICAL
        except EndedError as ended:
            output.note(f"ended by signal {ended.number}: nothing of the job runs")
            return 128 + ended.number
        except KeyboardInterrupt:
            output.note("interrupted: nothing of the job runs")
            return EXIT_INTERRUPTED
        finally:
            progress.end()
            if not is_kept:
                with deferred_signals():
                    remove(root)
    answer = document_of(proof, request.target.command, str(root) if is_kept else "")
    if parsed.junit:
        _write(Path(parsed.junit), junit(answer))
    if parsed.json:
        output.put_json(answer)
    else:
        output.put(page(answer))
    return proof.verdict.answer.exit_code


def _compare(parsed: argparse.Namespace) -> int:
    from pathlib import Path

    from lastgood.cli import output
    from lastgood.core.errors import UsageError
    from lastgood.prove.documenting import document_of_two
    from lastgood.prove.two_runs import compare_two, page_of_two

    if parsed.words:
        raise UsageError("--compare and a command", remedy="leave the command out: nothing is run")
    left, right = parsed.compare
    two = compare_two(Path(left), Path(right), _tolerance(parsed))
    if parsed.json:
        output.put_json(document_of_two(left, right, two))
    else:
        output.put(page_of_two(left, right, two))
    return two.answer.exit_code


def _tolerance(parsed: argparse.Namespace) -> "Tolerance":
    import math

    from lastgood.core.errors import UsageError
    from lastgood.prove.difference import Tolerance

    for name in ("rtol", "atol"):
        if not math.isfinite(value := getattr(parsed, name)) or value < 0:
            raise UsageError(f"--{name} {value}: give a number that is not less than 0")
    return Tolerance(parsed.rtol, parsed.atol)


def _request(parsed: argparse.Namespace, root: "Path") -> "Request":
    """Checked as far as that goes without starting anything. Raises UsageError."""
    import math
    import shlex
    from pathlib import Path

    from lastgood.core.errors import UsageError
    from lastgood.core.units import parse_duration
    from lastgood.prove.runner import Request
    from lastgood.trial.links import refuse_links_out
    from lastgood.trial.target import Target

    command = parsed.words[1:] if parsed.words[:1] == ["--"] else parsed.words
    if not command or not command[0]:
        raise UsageError("which command?", remedy="lastgood prove [options] -- COMMAND [ARGUMENT ...]")
    try:
        resume = tuple(shlex.split(parsed.resume_command)) if parsed.resume_command else ()
    except ValueError as error:
        raise UsageError(f"--resume-command {parsed.resume_command!r}: {error}", remedy="balance its quotes") from None
    directory = Path(parsed.directory).resolve()
    if not directory.is_dir():
        raise UsageError(f"--directory {parsed.directory}: no such directory")
    limit_s = parse_duration(parsed.limit)
    tolerance = _tolerance(parsed)
    if limit_s <= 0 or not math.isfinite(parsed.bound) or parsed.bound <= 0:
        raise UsageError("--limit and --bound must be more than nothing, and the bound a number")
    options = _options(parsed)
    is_again = parsed.again or bool(resume)
    _check_ways(parsed, options, is_again=is_again)
    _check_start(command, options, directory)
    target = Target(
        command=tuple(command),
        directory=directory,
        options=() if is_again else options,
        step_pattern=parsed.step_pattern,
        checkpoints=parsed.checkpoints or "",
        leave_out=tuple(parsed.leave_out),
        resume_command=resume,
        limit_s=limit_s,
    )
    refuse_links_out(target, parsed.through_links)
    return Request(
        target=target,
        root=root,
        way=_way(options, is_again=is_again),
        kills=parsed.kills,
        seed=parsed.seed,
        values=_values(parsed.value),
        files=tuple(parsed.file),
        tolerance=tolerance,
        statistical=tuple(_statistical(text) for text in parsed.statistical),
        bound=parsed.bound,
    )


def _options(parsed: argparse.Namespace) -> tuple[str, ...]:
    words: list[str] = []
    for name in RUN_OPTIONS:
        value = getattr(parsed, name)
        if value is not None:
            # In one word: a value may begin with a dash itself.
            words.append(f"--{name.replace('_', '-')}={value}")
    return (*words, "--standby") if parsed.standby else tuple(words)


def _check_ways(parsed: argparse.Namespace, options: tuple[str, ...], *, is_again: bool) -> None:
    from lastgood.core.errors import UsageError

    if not is_again:
        return
    if others := [word.partition("=")[0] for word in options if not word.startswith("--checkpoints=")]:
        given = "--again" if parsed.again else "--resume-command"
        raise UsageError(f"{given} and {others[0]}: who starts the killed command again?", remedy="give one of them")
    if parsed.again and parsed.resume_command:
        raise UsageError("--again and --resume-command: give one of them")


def _way(options: tuple[str, ...], *, is_again: bool) -> "Way | None":
    from lastgood.trial.target import Way

    if is_again:
        return Way.AGAIN
    is_named = any(word.startswith(("--app=", "--checkpoints=")) for word in options)
    return Way.LASTGOOD if is_named else None


def _check_start(command: list[str], options: tuple[str, ...], directory: "Path") -> None:
    """What `lastgood run` would refuse is refused here, before anything is copied."""
    import contextlib
    import os

    from lastgood.cli import run_command
    from lastgood.launch.process import check_command

    parser = argparse.ArgumentParser(prog="lastgood prove")
    run_command.configure(parser)
    with contextlib.chdir(directory):
        run_command.request_of(parser.parse_args(["--job", "job", *options, "--", *command]))
        if "{run}" not in command[0]:
            check_command(command, os.environ.get("PATH"))


def _values(given: list[str]) -> dict[str, str]:
    from lastgood.core.errors import UsageError

    found = {}
    for text in given:
        name, sign, pattern = text.partition("=")
        if not sign or not name or not pattern:
            raise UsageError(f"--value {text}: give NAME=REGEX", remedy="such as --value 'loss=loss ([-0-9.e]+)'")
        found[name] = pattern
    return found


def _statistical(text: str) -> tuple[str, str]:
    name, _, error = text.partition(":")
    return name, error


def _with_root(request: "Request", root: "Path") -> "Request":
    import msgspec

    return msgspec.structs.replace(request, root=root)


def _make_new(root: "Path") -> None:
    from lastgood.core.errors import UsageError
    from lastgood.store.durable import explained

    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(f"--keep {root}: it is there already, and not empty", remedy="name a new directory")
    with explained("make the directory", root):
        root.mkdir(parents=True, exist_ok=True)


def _write(path: "Path", text: str) -> None:
    from lastgood.store.durable import explained

    with explained("write", path):
        path.write_text(text, encoding="utf-8")
