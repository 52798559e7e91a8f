"""What a save costs: time that the loop stands still, slowdown of training, time until durable, memory, bytes.

    make bench, or: python bench/save.py [--figures stall,slowdown,durable,memory] [--kinds arrays,small,transformer]
                                         [--contenders lastgood,dcp] [--rounds 5] [--threads 1] [--scale 1.0]

Every contender runs in processes of its own; in each round all of them run one after another, so that a machine
that is busy for a while slows all alike. Numbers are medians with the least and the most; ratios are of medians
of one run. docs/explanation/performance.md says what each figure means. bench/requirements-peers.txt lists the
libraries; one that is not installed is named as such. Raw numbers go to bench/results/save.json.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import goals
import limits
import measures
import table
from lab import FailedError, Lab, rotated
from peers.contender import Contender
from peers.registry import contender
from peers.states import KINDS, TITLES

SAVING = (
    "lastgood",
    "lastgood-overlap",
    "torch-save",
    "torch-save-unchecked",
    "safetensors",
    "dcp",
    "dcp-async-thread",
    "dcp-async-process",
    "dcp-overlap-thread",
    "dcp-overlap-process",
    "torchsnapshot",
    "torch-checkpointing",
    "dlrover-memory",
    "dlrover-disk",
    "orbax",
)
BASELINES = {"orbax": "none-jax", "none-jax": "none-jax"}
"""Whose loop without saves is another one than the common."""

FIGURES = ("stall", "slowdown", "durable", "memory")
EVERY = 10
STALL_SAVES = 3
SLOWED_SAVES = 4
IDLE_SAVES = 3
DISTRIBUTIONS = (
    "torch",
    "safetensors",
    "torchsnapshot",
    "torch_checkpointing",
    "dlrover",
    "orbax-checkpoint",
    "jax",
    "numpy",
    "lastgood",
)

Values = dict[str, list[Any]]
"""What each contender has given, in the order of the rounds."""


class Bench:
    """One run of the benchmark: what is asked for, and what was found."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.lab = Lab(arguments.directory, scale=arguments.scale, threads=arguments.threads, limit_s=arguments.limit_s)
        self.absent: dict[str, str] = {}
        self.failures: dict[str, list[str]] = {}
        self.raw: dict[str, Any] = {}
        self.tables: list[str] = []
        self.verdicts: list[goals.Verdict] = []
        self.kinds: dict[str, type[Contender]] = {}
        for name in dict.fromkeys([*arguments.contenders, "none", "none-jax"]):
            try:
                self.kinds[name] = contender(name)
            except ImportError as error:
                self.absent[name] = f"not installed: {error.name}"
                continue
            if obstacle := self.kinds[name].obstacle():
                self.absent[name] = obstacle

    def chosen(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.absent]

    def rounds(self, names: Sequence[str], work: Callable[[str], dict[str, Any]], rounds: int | None = None) -> Values:
        """Do `work` for each name in each round. One that fails is tried again once; if it fails then, too, it is
        left out from there on, and is said to have failed."""
        values: Values = {name: [] for name in names}
        for number in range(rounds or self.arguments.rounds):
            for name in rotated(names, number):
                if name in self.absent:
                    continue
                for _ in range(2):
                    try:
                        one = work(name)
                    except FailedError as error:
                        self.failures.setdefault(name, []).append(str(error))
                        say(f"{name} failed: {error}")
                        continue
                    values[name].append(one)
                    if one.get("left_behind"):
                        say(f"{name}: had to be ended: {', '.join(one['left_behind'])}")
                    break
                else:
                    self.absent[name] = f"failed: {self.failures[name][-1]}"
        return values

    def loop(self, name: str, kind: str, *options: str, saves: int, **more: Any) -> dict[str, Any]:
        steps = EVERY * saves + EVERY // 2 + 1
        return self.lab.run(
            name, "loop", kind, *options, every=EVERY, steps=steps, pause=self.arguments.pause_s, **more
        )

    def add(
        self,
        title: str,
        head: Sequence[str],
        names: Sequence[str],
        row: Callable[[str], list[str] | None],
        attribute: str = "title",
    ) -> None:
        """A table with a row for each contender, also for those that gave nothing; `attribute` is what it is called."""
        rows = []
        for name in names:
            cells = row(name)
            label = getattr(self.kinds[name], attribute) if name in self.kinds else name
            if name in self.absent:
                cells = [self.absent[name], *[""] * (len(head) - 2)]
            rows.append([label, *(cells or ["-"] * (len(head) - 1))])
        self.tables.append(f"{title}\n\n{table.markdown(head, rows)}")
        print(self.tables[-1] + "\n", flush=True)

    def finish(self, facts: dict[str, str]) -> None:
        """Remove what was made, and keep what was found, also of a run that was cut short."""
        self.lab.close()
        found = {
            "absent": self.absent,
            "failures": self.failures,
            "raw": self.raw,
            "verdicts": self.verdicts,
            "tables": self.tables,
        }
        table.write_json(self.arguments.output, {**facts, **found})


def stall(bench: Bench, kind: str) -> None:
    names = [name for name in bench.arguments.contenders if name not in ("none", "none-jax")]
    found = bench.rounds(names, lambda name: bench.loop(name, kind, "--settle", saves=STALL_SAVES))
    each = {name: [measures.stalls(one["tops"], EVERY) for one in runs] for name, runs in found.items() if runs}
    first = {name: [one.saves[0] for one in runs] for name, runs in each.items()}
    steady = {name: [save for one in runs for save in one.saves[1:]] for name, runs in each.items()}
    size = size_of(found)
    copy_s = limits.memcpy_s(size, 1)
    bench.raw[f"stall {kind}"] = {"runs": found, "memcpy_s": copy_s, "bytes": size}

    def row(name: str) -> list[str] | None:
        if name not in each:
            return None
        calls = [one["call_s"] for one in found[name]]
        return [
            table.shown([call[0] for call in calls], 3),
            table.shown(first[name], 3),
            table.shown([seconds for call in calls for seconds in call[1:]], 3),
            table.shown(steady[name], 3),
            f"{table.median(steady[name]) / copy_s:.1f}",
            table.shown([one.step_s for one in each[name]], 3),
        ]

    head = ["", "first: call, s", "first: stall, s", "later: call, s", "later: stall, s", "in memcpys", "a step, s"]
    title = f"**Standing still**, {TITLES[kind].format(size=table.size(size))} (one memcpy: {copy_s:.3f} s)"
    bench.add(title, head, names, row)
    bench.verdicts += goals.of_stall(kind, first, steady, {n for n in each if bench.kinds[n].is_overlapped}, copy_s)


def slowdown(bench: Bench, kind: str) -> None:
    for threads in dict.fromkeys([bench.arguments.threads, bench.arguments.threads + 1]):
        _slowdown(bench, kind, threads)


def _slowdown(bench: Bench, kind: str, threads: int) -> None:
    contenders = bench.arguments.contenders
    plain = ["none", *(["none-jax"] if any(name in BASELINES for name in bench.chosen(contenders)) else [])]
    names = [*plain, *contenders]
    found = bench.rounds(names, lambda name: bench.loop(name, kind, saves=SLOWED_SAVES + 1, threads=threads))
    took = {
        name: [measures.stretch_s(one["tops"], EVERY, SLOWED_SAVES) for one in runs]
        for name, runs in found.items()
        if runs
    }
    bench.raw[f"slowdown {kind} {threads}"] = found
    # Each round against the loop without saves of the same round.
    slower = {
        name: [100 * (mine / bare - 1) for mine, bare in zip(runs, took[BASELINES.get(name, "none")], strict=False)]
        for name, runs in took.items()
        if BASELINES.get(name, "none") in took
    }

    def row(name: str) -> list[str] | None:
        if name not in slower:
            return None
        steps_s = [seconds / (EVERY * SLOWED_SAVES) for seconds in took[name]]
        return [table.shown(slower[name], 1, " %"), table.shown(steps_s, 3)]

    what = f"{TITLES[kind].format(size=table.size(size_of(found)))}; {threads} thread(s)"
    title = f"**Slowdown** of training with a save every {EVERY} steps, {what}"
    bench.add(title, ["", "slower by", "a step, saves included, s"], names, row)
    bench.verdicts += goals.of_slowdown(f"{kind}, {threads} thread(s)", slower)


def durable(bench: Bench, kind: str) -> None:
    names = [name for name in bench.arguments.contenders if name not in bench.kinds or bench.kinds[name].is_durable]
    raw_names = {
        "raw direct write, 1 thread": 1,
        "raw direct write, 2 threads": 2,
        "raw direct write, 4 threads": 4,
        "fio": 0,
    }
    sizes: dict[str, int] = {}

    def work(name: str) -> dict[str, Any]:
        found = bench.lab.run(name, "idle", kind, pause=bench.arguments.pause_s, steps=IDLE_SAVES + 1)
        sizes["state"] = found["bytes"]
        return found

    found = bench.rounds(names, work)
    size = sizes.get("state", 0)
    raw: Values = {name: [] for name in raw_names}
    for _ in range(bench.arguments.rounds if size else 0):
        for name, threads in raw_names.items():
            took = (
                limits.raw_write_s(bench.lab.directory, size, threads)
                if threads
                else limits.fio_s(bench.lab.directory, size, "write")
            )
            raw[name] += [] if took is None else [took]
    later = {name: [s for one in runs for s in one["durable_s"][1:]] for name, runs in found.items() if runs}
    bench.raw[f"durable {kind}"] = {"runs": found, "raw": raw, "bytes": size}

    def row(name: str) -> list[str] | None:
        if name in raw:
            took = [table.shown(raw[name], 3), rate(size, raw[name])] if raw[name] else ["not installed", ""]
            return ["", *took, "", ""]
        if name not in later:
            return None
        written = [value for one in found[name] for value in one["written"][1:]]
        kept = [value for one in found[name] for value in one["kept"][1:]]
        return [
            table.shown([one["durable_s"][0] for one in found[name]], 3),
            table.shown(later[name], 3),
            rate(size, later[name]),
            f"{table.median(written) / size:.3f}",
            f"{table.median(kept) / size:.3f}",
        ]

    head = ["", "first, s", "later, s", "GB/s", "bytes written / state", "bytes kept / state"]
    bench.add(f"**Until durable**, {TITLES[kind].format(size=table.size(size))}", head, [*names, *raw_names], row)
    bench.verdicts += goals.of_durable(kind, later, raw)


def memory(bench: Bench, kind: str) -> None:
    names = [name for name in bench.arguments.contenders if name not in ("none", "none-jax")]

    def work(name: str) -> dict[str, Any]:
        found = bench.loop(name, kind, "--settle", saves=2, is_watched=True)
        return {**found, "extra": measures.extra_bytes(bench.lab.memory, found["ready"])}

    found = bench.rounds(names, work, min(2, bench.arguments.rounds))
    bench.raw[f"memory {kind}"] = found
    size = size_of(found)

    def row(name: str) -> list[str] | None:
        if not found.get(name):
            return None
        extra = [one["extra"] for one in found[name]]
        return [table.shown([value / 1e6 for value in extra], 0), f"{max(extra) / size:.2f}"]

    title = f"**Memory at most, beyond the training's own**, {TITLES[kind].format(size=table.size(size))}"
    bench.add(title, ["", "MB", "of the state"], names, row)
    bench.verdicts += goals.of_memory(
        kind, {n: max(o["extra"] for o in runs) for n, runs in found.items() if runs}, size
    )


def size_of(found: Values) -> int:
    return next((int(one["bytes"]) for runs in found.values() for one in runs), 1)


def rate(size: int, seconds: Sequence[float]) -> str:
    return f"{size / table.median(seconds) / 1e9:.2f}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    arguments = make_parser(__doc__, "save.json", FIGURES, SAVING).parse_args()
    bench = Bench(arguments)
    facts = {**table.machine(arguments.directory), **table.versions(DISTRIBUTIONS)}
    try:
        print(table.about(facts) + "\n", flush=True)
        for kind in arguments.kinds:
            for figure in arguments.figures:
                if figure != "slowdown" or kind == "transformer":
                    say(f"{figure}, {kind}")
                    globals()[figure](bench, kind)
    finally:
        bench.finish(facts)
    print(goals.shown(bench.verdicts))
    return 0


def make_parser(
    text: str | None, output: str, figures: Sequence[str], contenders: Sequence[str]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", type=several(figures), default=list(figures), help=f"of {', '.join(figures)}")
    parser.add_argument("--kinds", type=several(KINDS), default=list(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument(
        "--contenders", type=several(contenders), default=list(contenders), help=f"of {', '.join(contenders)}"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="of the training's computation (default: 1)")
    parser.add_argument("--pause-s", type=float, default=4.0, help="time before the first save (default: 4)")
    parser.add_argument("--scale", type=float, default=1.0, help="smaller states, for a try (default: 1.0)")
    parser.add_argument(
        "--directory", type=Path, default=Path(tempfile.gettempdir()), help="where checkpoints are written"
    )
    parser.add_argument("--limit-s", type=float, default=300.0, help="end a contender that takes longer (default: 300)")
    parser.add_argument("--output", type=Path, default=table.RESULTS / output)
    return parser


def several(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def words(text: str) -> list[str]:
        found = [word.strip() for word in text.split(",")]
        if unknown := [word for word in found if word not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(allowed)}")
        return found

    return words


if __name__ == "__main__":
    sys.exit(main())
