"""`lastgood drill`: cause failures on purpose, measure what they cost, and say whether the job comes through."""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.drill.fault import Call
    from lastgood.drill.load import LoadDone
    from lastgood.drill.spec import Spec
    from lastgood.drill.whole import Drilled, Request

EPILOG = """\
The job runs once undisturbed and once under faults, each in a copy of this directory; {run} in the
command stands for that copy. Give it little to do: minutes, with several checkpoints. Nothing that a
drill does outlives it.

  --fault NAME[,option=value...][@WHEN]     WHEN: step=N, time=30s, phase=save|commit|restore, after=10s

Without --fault a rank is killed, all of it is killed in the middle of a save, it is told to stop as by a
scheduler, and its newest checkpoint is damaged.

examples:
  lastgood drill -- python train.py --epochs 2
  lastgood drill --fault kill-rank,which=last@step=120 --fault terminate,grace=5s --bill -- python train.py
  lastgood drill --random 5 --mtti 20s --distribution weibull --shape 0.7 --seed 7 -- python train.py
  lastgood drill --again --step-pattern 'step (\\d+)' --checkpoints 'out/*.pt' -- python plain.py
  lastgood drill --list

Exit codes: 0 pass, 1 fail, 3 unknown (what was tried cannot tell, such as a fault without effect), 2 wrong
call. docs/how-to/drill.md says what is measured, and what counts as a fail.
"""

_PASSED_ON = {
    "--app": ("NAME|FILE.toml", "the command is this application"),
    "--save-every": ("DURATION", "with --app: work between two of its checkpoints"),
    "--resume-arg": ("TEMPLATE", "what to add to the command to resume, such as '--resume-from {checkpoint}'"),
    "--grace": ("DURATION", "time that the command gets to save (the faults need what fits them)"),
    "--hang-timeout": ("DURATION|off", "no sign of progress for this long is a hang (the same)"),
    "--time-limit": ("DURATION", "end of the allocation from now"),
    "--restart-on": ("CODES", "exit codes after which to restart (the same)"),
    "--max-restarts": ("N", "give up after this many restarts"),
}
"""Options of `lastgood run` that are handed on."""


def configure(parser: argparse.ArgumentParser) -> None:
    from lastgood.cli import arguments, drill_slurm

    parser.usage = "lastgood drill [options] [options of lastgood run] -- COMMAND [ARGUMENT ...]"
    parser.epilog = EPILOG
    faults = parser.add_argument_group("faults")
    add = faults.add_argument
    add("--fault", metavar="SPEC", action="append", default=[], help="cause this one; may be repeated")
    add(
        "--random",
        metavar="N",
        type=arguments.at_least(1),
        help="so many faults at random times, see --mtti and --kinds",
    )
    add("--mtti", metavar="DURATION", help="with --random: mean time between faults")
    add("--rate", metavar="N/min", help="the same as a rate, such as 2/min")
    add("--distribution", choices=("exponential", "weibull"), default="exponential", help="of the times between them")
    add("--shape", metavar="K", type=float, default=0.7, help="of Weibull: below 1 they come in bursts (default: 0.7)")
    add(
        "--kinds",
        metavar="NAMES",
        help="faults to choose from, with commas between them (default: kill-rank,kill-group)",
    )
    add("--replay", metavar="JOB|FILE", help="when failures came before: a job's directory, or a history --json")
    add("--speed-up", metavar="X", type=float, default=1.0, help="with --replay: so many times faster")
    add(
        "--nodes",
        metavar="N",
        type=arguments.at_least(1),
        default=1,
        help="with --replay of a cluster: nodes of the job",
    )
    add(
        "--seed",
        metavar="N",
        type=int,
        help="of all choices: the same seed makes the same schedule (default: a new one)",
    )
    add("--node-down", metavar="COMMAND", default="", help="for the fault `node`: takes {node} down")
    add("--node-up", metavar="COMMAND", default="", help="brings it up again; run in any case")
    add("--list", action="store_true", help="list the faults, what each needs, and whether it can be caused here")
    job = parser.add_argument_group("the job")
    add = job.add_argument
    add(
        "--again", action="store_true", help="no launcher of ours: the drill gives the command again, as --requeue does"
    )
    add(
        "--step-pattern",
        metavar="REGEX",
        default="",
        help="how to read the step from the output, such as 'step (\\d+)'",
    )
    add("--checkpoints", metavar="GLOB", default="", help="where a program without lastgood leaves its checkpoints")
    add("--leave-out", metavar="GLOB", action="append", default=[], help="names that are not copied; may be repeated")
    add(
        "--through-links",
        action="store_true",
        help="links to directories elsewhere are followed, although every run can write into these",
    )
    add("--limit", metavar="DURATION", default="1h", help="for one run of the job (default: 1h)")
    add(
        "--until",
        choices=("end", "recovered"),
        default="end",
        help="recovered: end it when it has come through the last fault (for jobs that run long)",
    )
    add("--quick", action="store_true", help="without the undisturbed run, and without a bill")
    add("--bill", action="store_true", help="also measure what protection costs, and what the faults cost without it")
    add(
        "--keep",
        metavar="DIR",
        help="work here, and leave everything there (default: a temporary directory, left if it fails)",
    )
    add("--json", action="store_true", help="print JSON instead of text")
    drill_slurm.configure(parser)
    run = parser.add_argument_group("options of lastgood run, handed on")
    for name, (metavar, text) in _PASSED_ON.items():
        run.add_argument(name, metavar=metavar, help=text)
    run.add_argument("--standby", action="store_true", help="keep a process ready that takes over")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments")


def execute(arguments: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.drill_text import list_text

    call = _call(arguments)
    if arguments.list:
        output.put(list_text(call))
        return 0
    return _drill(arguments, call)


def _drill(arguments: argparse.Namespace, call: "Call") -> int:
    from lastgood.cli import drill_slurm
    from lastgood.core.errors import UsageError
    from lastgood.drill.load import parse_load
    from lastgood.drill.whole import check, run_drill
    from lastgood.launch.process import check_command
    from lastgood.trial.deferring import EndedError, ending_by_exception
    from lastgood.trial.links import refuse_links_out, told_links_out
    from lastgood.trial.target import step_finder

    if not call.target.command:
        raise UsageError("which command?", remedy="lastgood drill [options] -- COMMAND [ARGUMENT ...]")
    step_finder(call.target.step_pattern)
    _check_run_options(call)
    check_command(call.target.command, os.environ.get("PATH"))
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(3), "big")
    if arguments.slurm:
        specs = drill_slurm.specs_of(arguments, call)
    elif arguments.sbatch:
        raise UsageError("--sbatch goes with --slurm")
    else:
        specs = _specs(arguments, seed)
        check(call, specs)
    if arguments.load:
        parse_load(arguments.load)
    run = drill_slurm.slurm_runner(arguments) if arguments.slurm else run_drill
    refuse_links_out(call.target, arguments.through_links)
    if links := told_links_out(call.target):
        _say(links)
    request = _request(arguments, call, specs, seed)
    with ending_by_exception():
        try:
            with drill_slurm.pressure(arguments, request.root) as load_done:
                drilled = run(request, _say)
        except EndedError as ended:
            _end(request, f"ended by signal {ended.number}")
            return 128 + ended.number
        except KeyboardInterrupt:
            _end(request, "interrupted")
            raise
        except UsageError:
            # Nothing was started that it could tell of.
            _remove(request)
            raise
        except Exception:
            _say(f"left as it is: {request.root}; drill.jsonl there says what was done, and whether it was undone")
            raise
    is_left = request.is_kept or drilled.verdict.answer.value != "pass"
    if not is_left:
        _remove(request)
    return _answer(arguments, request, drilled, str(request.root) if is_left else "", load_done())


def _end(request: "Request", how: str) -> None:
    """It was told to end, and has undone what it could."""
    from lastgood.drill.journal import not_undone

    if left := not_undone(request.root):
        _say(f"{how}: nothing of the job runs; not undone: {'; '.join(left)}; see {request.root}")
        return
    _say(f"{how}: all faults are undone, nothing of the job runs")
    _remove(request)


def _remove(request: "Request") -> None:
    from lastgood.trial.deferring import deferred_signals
    from lastgood.trial.place import remove

    if not request.is_kept:
        with deferred_signals():
            remove(request.root)


def _check_run_options(call: "Call") -> None:
    """What `lastgood run` would refuse is refused before the first run. Raises UsageError."""
    from lastgood.cli import run_command

    parser = argparse.ArgumentParser(prog="lastgood run", allow_abbrev=False)
    run_command.configure(parser)
    run_command.request_of(parser.parse_args(["--job", "x", *call.target.options, "--", *call.target.command]))


def _answer(
    arguments: argparse.Namespace, request: "Request", drilled: "Drilled", directory: str, load: "LoadDone | None"
) -> int:
    from lastgood.cli import output
    from lastgood.cli.drill_text import text_of
    from lastgood.core.errors import EXIT_FINDINGS, EXIT_FINISHED, EXIT_UNKNOWN
    from lastgood.drill.answering import answer_of

    answer = answer_of(request, drilled, directory, load)
    if arguments.json:
        output.put_json(answer)
    else:
        output.put(text_of(answer))
    return {"pass": EXIT_FINISHED, "fail": EXIT_FINDINGS, "unknown": EXIT_UNKNOWN}[answer.verdict]


def _call(arguments: argparse.Namespace) -> "Call":
    from lastgood.core.errors import UsageError
    from lastgood.core.units import parse_duration
    from lastgood.drill.fault import Call, Hooks
    from lastgood.trial.target import Target, Way

    command = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    given = {name: getattr(arguments, name.strip("-").replace("-", "_")) for name in _PASSED_ON}
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    options += ["--standby"] if arguments.standby else []
    if arguments.again and options:
        raise UsageError(f"--again: no launcher of ours runs the command, so {options[0]} means nothing")
    if arguments.checkpoints and not arguments.again:
        options += ["--checkpoints", arguments.checkpoints]
    limit_s = parse_duration(arguments.limit)
    if limit_s <= 0:
        raise UsageError(f"--limit {arguments.limit}: must be more than nothing")
    if arguments.quick and arguments.bill:
        raise UsageError("--quick leaves the bill out: give one of --quick and --bill")
    target = Target(
        command=tuple(command),
        directory=Path.cwd(),
        options=tuple(options),
        step_pattern=arguments.step_pattern,
        checkpoints=arguments.checkpoints,
        leave_out=tuple(arguments.leave_out),
        # As our launcher does: a step that is told late is taken for one that is done late.
        environment={"PYTHONUNBUFFERED": "1"},
        limit_s=limit_s,
    )
    way = Way.AGAIN if arguments.again else Way.LASTGOOD
    return Call(target, way, Hooks(arguments.node_down, arguments.node_up))


def _specs(arguments: argparse.Namespace, seed: int) -> "list[Spec]":
    from lastgood.core.errors import UsageError
    from lastgood.core.units import parse_duration
    from lastgood.drill.replay import read_history
    from lastgood.drill.schedule import DEFAULT, at_random, replayed
    from lastgood.drill.spec import parse_spec

    given = [parse_spec(text) for text in arguments.fault]
    kinds = [parse_spec(name) for name in (arguments.kinds or "").split(",") if name]
    mean_s = parse_duration(arguments.mtti) if arguments.mtti else None
    if arguments.rate:
        mean_s = _mean_of_rate(arguments.rate)
    if not arguments.speed_up > 0:
        raise UsageError(f"--speed-up {arguments.speed_up:g}: give a number above 0")
    if not arguments.replay and (arguments.speed_up != 1.0 or arguments.nodes != 1):
        raise UsageError("--speed-up and --nodes are of a failure history", remedy="give it with --replay")
    if arguments.replay:
        told = read_history(Path(arguments.replay))
        if told.failures:
            return [*given, *replayed(told.failures, speed_up=arguments.speed_up, kinds=kinds, seed=seed)]
        mean_s = (told.mtti_s(arguments.nodes) or 0.0) / arguments.speed_up
        arguments.random = arguments.random or 1
    if arguments.random:
        if not mean_s or mean_s <= 0:
            raise UsageError("--random: how often? give --mtti 30s, or --rate 2/min")
        if not arguments.shape > 0:
            raise UsageError(f"--shape {arguments.shape:g}: give a number above 0")
        kinds = kinds or [parse_spec("kill-rank"), parse_spec("kill-group")]
        return given + at_random(
            arguments.random, mean_s, kinds, seed=seed, distribution=arguments.distribution, shape=arguments.shape
        )
    if arguments.mtti or arguments.rate:
        raise UsageError("--mtti and --rate go with --random N")
    return given or _default(arguments, list(DEFAULT))


def _default(arguments: argparse.Namespace, specs: "list[Spec]") -> "list[Spec]":
    """Without knowing which files are checkpoints there is none to damage, and no save to be seen."""
    if arguments.checkpoints or not (arguments.again or arguments.app):
        return specs
    return [spec for spec in specs if spec.when is None and (arguments.app or spec.name != "flip-bit")]


def _mean_of_rate(text: str) -> float:
    from lastgood.core.errors import UsageError

    number, _, unit = text.partition("/")
    seconds = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}.get(unit.strip())
    try:
        rate = float(number)
    except ValueError:
        rate = 0.0
    if seconds is None or not 0 < rate < float("inf"):
        raise UsageError(f"--rate {text}: write a number of faults per s, min, h or d, such as 2/min")
    return seconds / rate


def _request(arguments: argparse.Namespace, call: "Call", specs: "Sequence[Spec]", seed: int) -> "Request":
    from lastgood.core.errors import UsageError
    from lastgood.drill.whole import Request
    from lastgood.store.durable import explained

    if arguments.keep:
        root = Path(arguments.keep).absolute()
        with explained("make the directory of the drill", root, safe="nothing was started"):
            root.mkdir(parents=True, exist_ok=True)
            if any(root.iterdir()):
                raise UsageError(
                    f"{root} is not empty", safe="nothing was started", remedy="give --keep a new directory"
                )
    else:
        # Nodes of a cluster do not share /tmp.
        root = Path(tempfile.mkdtemp(prefix="lastgood-drill-", dir=Path.cwd() if arguments.slurm else None))
    return Request(
        call=call,
        specs=tuple(specs),
        root=root,
        seed=seed,
        wants_bill=arguments.bill,
        is_quick=arguments.quick,
        is_until_recovered=arguments.until == "recovered",
        is_kept=bool(arguments.keep),
    )


def _say(text: str) -> None:
    from lastgood.cli import output

    if sys.stderr is not None:
        output.note(output.plain(text))
