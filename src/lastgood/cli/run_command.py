"""`lastgood run`: supervise a command as a job."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lastgood.apps.known import description_path, names
from lastgood.core.array import job_of_task, of_task
from lastgood.core.errors import UsageError
from lastgood.core.hang import HangPolicy
from lastgood.core.layout import Env
from lastgood.core.restart import Policy
from lastgood.core.units import parse_duration

if TYPE_CHECKING:
    from lastgood.cli.wiring import AppRequest, RunRequest

EPILOG = """\
One command line serves the first run and every later one: it starts fresh where the job has not run
before, and otherwise resumes from the last good checkpoint. Signals (SIGTERM, SIGUSR1, Ctrl-C: save and
stop; SIGUSR2: save and carry on) reach every process of the command; an application (--app) is asked in
its own way, and is sent nothing that it would die of.

examples:
  lastgood run --job runs/digits -- python train.py
  lastgood run --job runs/md --app gromacs -- gmx mdrun -s topol.tpr
  lastgood run --job runs/y --app solver.toml -- ./solver input.txt
  lastgood run --job runs/x --resume-arg '--resume-from {checkpoint}' --checkpoints 'out/*.pt' -- python train.py
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lastgood run [options] -- COMMAND [ARGUMENT ...]"
    parser.epilog = EPILOG
    add = parser.add_argument
    add("--job", metavar="DIR", help="directory of the job (or set LASTGOOD_JOB); made if it does not exist")
    add("--fresh", action="store_true", help="begin anew; older checkpoints stay, and are not used any more")
    restarts = parser.add_mutually_exclusive_group()
    restarts.add_argument(
        "--max-restarts",
        type=int,
        metavar="N",
        default=100,
        help="give up after this many restarts, counted over all launches since the last new start (default: 100)",
    )
    restarts.add_argument("--no-restart", action="store_true", help="run one attempt only")
    add(
        "--grace",
        metavar="DURATION",
        default="30s",
        help="time that the command gets to save after a signal, before it is killed (default: 30s)",
    )
    add(
        "--time-limit",
        metavar="DURATION",
        help="end of the allocation from now: the command is asked to stop the grace time before it "
        "(known without this option if SLURM_JOB_END_TIME is set)",
    )
    add(
        "--hang-timeout",
        metavar="DURATION|off",
        help="end the attempt when a rank shows no sign of progress for this long (default: ten times its longest "
        "step, at least 5min; 30min until the first step); for a command without heartbeats: when its output is "
        "silent for this long (default: off)",
    )
    add(
        "--restart-on",
        metavar="CODES",
        default="",
        help="exit codes, such as 3,17, after which to restart although they look like errors of the program",
    )
    add(
        "--resume-arg",
        metavar="TEMPLATE",
        help="what to add to the command to resume, such as '--resume-from {checkpoint}', for programs that "
        "do not use lastgood",
    )
    add("--checkpoints", metavar="GLOB", help="where such a program leaves its checkpoints, such as 'out/*.pt'")
    add(
        "--app",
        metavar="NAME|FILE.toml",
        help="the command is this application: its own checkpoints are found, checked and resumed from; "
        f"one of {', '.join(names())}, or the path of a description (see `lastgood app`)",
    )
    add(
        "--save-every",
        metavar="DURATION",
        help="with --app: work between two checkpoints of the application (default: 7min)",
    )
    add(
        "--standby",
        action="store_true",
        help="keep a process that has imported what the program imports, so that a restart takes a moment; "
        "for `python SCRIPT`, `python -m MODULE` and `torchrun --standalone`, with programs that use lastgood",
    )
    add(
        "--chained",
        action="store_true",
        help="the tasks of this Slurm array are the segments of one job (--array=1-N%%1); without it each is a job of "
        "its own, told by %%a in --job",
    )
    add(
        "--local-storage",
        choices=("refuse", "warn", "allow"),
        help="what to do where Slurm may start the job on another node and only this one has its directory "
        "(default: refuse one in memory, warn of one on a disk)",
    )
    add(
        "--same-gpu",
        action="store_true",
        help="run attempts only on GPUs of the models, and of the number, that the job began on: a Slurm job is started "
        "again on another node, any other start is refused (exit code 80)",
    )
    add(
        "--metrics",
        metavar="FILE",
        help="keep metrics of the job in this file, for the textfile collector of Prometheus' node exporter (its name has "
        "to end with .prom); %%a and %%A stand for the task and the array, as in --job",
    )
    add("--quiet", action="store_true", help="say only what went wrong")
    add("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments")


def execute(arguments: argparse.Namespace) -> int:
    from lastgood.cli.wiring import run_job

    request = request_of(arguments)
    job = job_of_task(os.fspath(request.job), os.environ, is_chained=request.is_chained)
    metrics = None if request.metrics is None else Path(of_task(os.fspath(request.metrics), os.environ)).absolute()
    return run_job(msgspec.structs.replace(request, job=Path(job), metrics=metrics))


def request_of(arguments: argparse.Namespace) -> "RunRequest":
    """The request that the options make, checked; also for commands that have them run later. Raises UsageError."""
    from lastgood.cli.wiring import RunRequest
    from lastgood.launch.supervisor import Settings
    from lastgood.launch.wrapped import parse_wrapping

    settings = Settings(
        policy=Policy(
            max_restarts=0 if arguments.no_restart else _count(arguments.max_restarts),
            restart_on=_codes(arguments.restart_on),
        ),
        grace_s=parse_duration(arguments.grace),
        hang=_hang_policy(arguments.hang_timeout),
        is_fresh=arguments.fresh,
    )
    return RunRequest(
        job=_job(arguments.job),
        command=_command(arguments.words),
        settings=settings,
        time_limit_s=None if arguments.time_limit is None else _positive("--time-limit", arguments.time_limit),
        wrapping=parse_wrapping(arguments.checkpoints, arguments.resume_arg),
        app=_app(arguments),
        is_quiet=arguments.quiet,
        is_standby_wanted=arguments.standby,
        metrics=None if arguments.metrics is None else Path(arguments.metrics),
        is_chained=arguments.chained,
        local_storage=arguments.local_storage,
        is_same_gpu=arguments.same_gpu,
    )


def _app(arguments: argparse.Namespace) -> "AppRequest | None":
    from lastgood.cli.wiring import AppRequest

    if arguments.app is None:
        if arguments.save_every is not None:
            raise UsageError("--save-every without --app: a program that uses lastgood says it with Run(every=...)")
        return None
    if arguments.checkpoints is not None or arguments.resume_arg is not None:
        raise UsageError("--app knows the checkpoints: leave --checkpoints and --resume-arg out")
    every_s = None if arguments.save_every is None else _positive("--save-every", arguments.save_every)
    description_path(arguments.app)
    return AppRequest(arguments.app, every_s)


def _job(given: str | None) -> Path:
    path = given or os.environ.get(Env.JOB, "")
    if not path:
        raise UsageError("which job?", remedy=f"give --job DIR, or set {Env.JOB}")
    return Path(path)


def _command(words: list[str]) -> list[str]:
    command = words[1:] if words[:1] == ["--"] else words
    if not command or not command[0]:
        raise UsageError("which command?", remedy="lastgood run --job DIR -- COMMAND [ARGUMENT ...]")
    return command


def _count(number: int) -> int:
    if number < 0:
        raise UsageError(f"--max-restarts {number}: give 0 or more")
    return number


def _positive(option: str, text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise UsageError(f"{option} {text}: must be more than nothing")
    return seconds


def _hang_policy(text: str | None) -> HangPolicy | None:
    if text is None:
        return HangPolicy()
    return None if text == "off" else HangPolicy(limit_s=_positive("--hang-timeout", text))


def _codes(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdigit() and 1 <= int(word) <= 255 for word in words):
        raise UsageError(f"--restart-on {text}: give exit codes from 1 to 255, separated by commas")
    return tuple(int(word) for word in words)
