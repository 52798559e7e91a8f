"""`lastgood app`: applications with checkpoints of their own, and programs without any."""

import argparse
import contextlib
import os
from typing import TYPE_CHECKING

from lastgood.core.errors import DamagedError, UsageError

if TYPE_CHECKING:
    from lastgood.apps.described import Described
    from lastgood.cli.answers import AppCheckAnswer, AppTransparentAnswer
    from lastgood.launch.ports import Found

EPILOG = """\
list          the names that `lastgood run --app` takes
check         try a description: which checkpoint is found and which are not used, why, the commands of the
              next start, and whether the work is done; nothing is changed, and nothing is started but the
              description's own command that checks. Exit code 65 if there are checkpoints and none can be used
transparent   with --check: whether this machine and this command keep the known limits of CRIU, cuda-checkpoint,
              DMTCP and MANA, which save a program that saves nothing itself

examples:
  lastgood app list
  lastgood app check solver.toml --directory runs/x -- ./solver input.txt
  lastgood app check transformers-trainer -- python train.py --output_dir out
  lastgood app transparent --check -- ./solver input.txt
"""
_INTERVAL_S = 420.0
"""Stands for what the launcher would choose."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lastgood app {list,check,transparent} [FILE] [options] [-- COMMAND [ARGUMENT ...]]"
    parser.epilog = EPILOG
    add = parser.add_argument
    add("action", choices=("list", "check", "transparent"), help="what to do, see below")
    add("file", metavar="FILE", nargs="?", help="of check: a description, or the name of one that comes with lastgood")
    add("--directory", metavar="DIR", default=".", help="of check: where the command would be run (default: here)")
    add("--check", action="store_true", help="of transparent: look at this machine (CRIU's own check is run)")
    add("--json", action="store_true", help="print JSON instead of text")


def execute(parsed: argparse.Namespace) -> int:
    if parsed.action == "check":
        return _check(parsed)
    if parsed.file is not None:
        raise UsageError(f"lastgood app {parsed.action} takes no FILE ({parsed.file})")
    return _list(parsed) if parsed.action == "list" else _transparent(parsed)


def _list(parsed: argparse.Namespace) -> int:
    from lastgood.apps.known import description_path, names, summary_of
    from lastgood.cli import output
    from lastgood.cli.answers import AppListAnswer, ListedApp

    answer = AppListAnswer([ListedApp(name, summary_of(name), description_path(name) or "") for name in names()])
    if parsed.json:
        output.put_json(answer)
        return 0
    output.put(output.table(["NAME", "WHAT"], [[app.name, app.summary] for app in answer.applications]))
    return 0


def _check(parsed: argparse.Namespace) -> int:
    from lastgood.apps.described import adapter_from
    from lastgood.apps.known import description_path
    from lastgood.cli import output
    from lastgood.store.durable import explained

    if parsed.file is None:
        raise UsageError("which description?", remedy="lastgood app check FILE.toml [--directory DIR] [-- COMMAND]")
    path = description_path(parsed.file)
    if path is None:
        raise UsageError(
            f"{parsed.file} has an adapter in code, no description", remedy="`lastgood app list` shows which is which"
        )
    path = os.path.abspath(path)
    try:
        with contextlib.chdir(parsed.directory), explained("look for checkpoints in", parsed.directory):
            answer = _tried(adapter_from(path, parsed.handed_on), path, parsed.handed_on)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise UsageError(f"--directory {parsed.directory}: {error.strerror}") from error
    if parsed.json:
        output.put_json(answer)
    else:
        output.put(_text(answer))
    is_damaged = bool(answer.checkpoints) and not any(checkpoint.is_used for checkpoint in answer.checkpoints)
    return DamagedError.exit_code if is_damaged else 0


def _tried(adapter: "Described", path: str, command: list[str]) -> "AppCheckAnswer":
    from lastgood.cli.answers import AppCheckAnswer, CheckedAppCheckpoint
    from lastgood.launch.ports import Conditions

    conditions = Conditions(_INTERVAL_S)
    used: Found | None = None
    rows = []
    for found in adapter.candidates():
        # As the launcher does: only the one that would be used is read in full.
        problem = found.problem or ("" if used else adapter.problem_of(found))
        is_used = not problem and used is None
        used = found if is_used else used
        rows.append(CheckedAppCheckpoint(found.path, found.step, found.at, found.size_bytes, problem, is_used))
    work = adapter.work()
    fresh = adapter.plan(None, conditions).order if command else None
    resumed = adapter.plan(used, conditions).order if command and used is not None else None
    following = resumed or fresh
    return AppCheckAnswer(
        application=adapter.name,
        description=path,
        directory=os.getcwd(),
        checkpoints=rows,
        total=None if work is None else work.total,
        is_finished=work is not None and work.is_done,
        fresh=[] if fresh is None else fresh.command,
        resume=[] if resumed is None else resumed.command,
        notes=[] if following is None else list(following.notes),
        stop=adapter.stop_in_words(),
    )


def _text(answer: "AppCheckAnswer") -> str:
    import time

    from lastgood.cli import output
    from lastgood.core.quoting import shown, shown_command
    from lastgood.core.units import duration

    lines = [f"{answer.application}, described in {shown(answer.description)}", f"in {shown(answer.directory)}", ""]
    if answer.checkpoints:
        now = time.time()
        rows = [
            [
                shown(checkpoint.path),
                str(checkpoint.step),
                duration(max(now - checkpoint.written, 0.0)),
                "resumes from this one" if checkpoint.is_used else checkpoint.problem or "older",
            ]
            for checkpoint in answer.checkpoints
        ]
        lines += [output.table(["CHECKPOINT", "STEP", "AGE", "USE"], rows, right=[1, 2]), ""]
    else:
        lines += ["no checkpoint: a start would begin from zero", ""]
    used = next((checkpoint for checkpoint in answer.checkpoints if checkpoint.is_used), None)
    of = "" if used is None or answer.total is None else f" (step {used.step} of {answer.total})"
    lines.append(f"finished: {'yes, nothing would be started' if answer.is_finished else f'no{of}'}")
    lines += output.wrap(f"stop:     {answer.stop}", indent=" " * 10)
    lines += [f"fresh:    {shown_command(answer.fresh)}"] if answer.fresh else []
    lines += [f"resume:   {shown_command(answer.resume)}"] if answer.resume else []
    for note in answer.notes:
        lines += output.wrap(f"note:     {note}", indent=" " * 10)
    if not answer.fresh:
        lines.append("commands: give one behind -- to see how it would be started")
    return "\n".join(lines)


def _transparent(parsed: argparse.Namespace) -> int:
    from lastgood.apps.transparent import limits_here
    from lastgood.cli import output
    from lastgood.cli.answers import AppTransparentAnswer, TransparentLimit

    if not parsed.check:
        raise UsageError(
            "lastgood app transparent needs --check: it tells what is possible, and starts nothing",
            remedy="lastgood app transparent --check [-- COMMAND]",
        )
    limits = limits_here(parsed.handed_on)
    rows = [TransparentLimit(limit.mechanism, limit.limit, limit.state, limit.looked_at) for limit in limits]
    answer = AppTransparentAnswer(parsed.handed_on, rows)
    if parsed.json:
        output.put_json(answer)
    else:
        output.put(_limits_text(answer))
    return 0


def _limits_text(answer: "AppTransparentAnswer") -> str:
    from lastgood.cli import output

    rows = [[limit.mechanism, limit.state, f"{limit.limit}: {limit.looked_at}"] for limit in answer.limits]
    return output.table(["WITH", "STATE", "LIMIT"], rows)
