"""What coming back costs: loading into arrays that are there, and the way from SIGKILL to the first new step.

    make bench, or: python bench/recover.py [--figures restore,restart] [--kinds arrays,small,transformer] [--rounds 5]

Cold restore: the checkpoint's files are taken out of the page cache, and then loaded into existing arrays that
hold other values, by a process that has imported everything; what was loaded is compared afterwards. Ours checks
every byte against its checksum, and its time is that of the whole `lastgood.Run(...)`.
Restart: the training process is killed with SIGKILL; the clock stops at the end of the first step of its successor.
Otherwise as bench/save.py; raw numbers go to bench/results/recover.json.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import goals
import limits
import save
import table
from lab import FailedError, rotated
from peers.states import TITLES
from restarts.killing import PARTS, Killed, kill_once
from restarts.ways import WAYS

LOADING = (
    "lastgood",
    "torch-save",
    "torch-load-mmap",
    "safetensors",
    "dcp",
    "torchsnapshot",
    "torch-checkpointing",
    "orbax",
)
MODELS = {"small": ("a small model", 0.02, 100), "large": ("a transformer of 330 MB", 1.0, 10)}
"""What it is called, the scale of the state, and after how many steps it is saved."""


def restore(bench: save.Bench, kind: str) -> None:
    names = list(bench.arguments.contenders)
    stored: dict[str, dict[str, Any]] = {}

    def store(name: str) -> dict[str, Any]:
        place = Path(tempfile.mkdtemp(dir=bench.lab.directory))
        stored[name] = bench.lab.run(name, "store", kind, directory=place, seed=1)
        return stored[name]

    def load(name: str) -> dict[str, Any]:
        found = bench.lab.run(name, "load", kind, place=stored[name]["place"], seed=2)
        if found["digest"] != stored[name]["digest"]:
            raise FailedError("what was loaded is not what was saved")
        return found

    bench.rounds(names, store, rounds=1)
    found = bench.rounds([name for name in names if name in stored], load)
    took = {name: [one["load_s"] for one in runs] for name, runs in found.items() if runs}
    size = save.size_of(found)
    raw = _raw(bench, size)
    bench.raw[f"restore {kind}"] = {"runs": found, "raw": raw, "bytes": size}

    def row(name: str) -> list[str] | None:
        seconds = raw[name] if name in raw else took.get(name, [])
        if not seconds:
            return None
        cached = max((one["cached_before"] for one in found.get(name, [])), default=0.0)
        return [table.shown(seconds, 3), save.rate(size, seconds), f"{100 * cached:.0f} %"]

    title = f"**Cold restore**, {TITLES[kind].format(size=table.size(size))}"
    bench.add(title, ["", "s", "GB/s", "in the page cache before"], [*names, *raw], row, "load_title")
    bench.verdicts += goals.of_restore(kind, took, raw)


def _raw(bench: save.Bench, size: int) -> save.Values:
    """Reading a file of the same size past the page cache."""
    found: save.Values = {f"raw direct read, {threads} thread(s)": [] for threads in (1, 2, 4)}
    found["fio"] = []
    path = bench.lab.directory / "raw"
    limits.make_file(path, size)
    for _ in range(bench.arguments.rounds):
        for threads in (1, 2, 4):
            found[f"raw direct read, {threads} thread(s)"].append(limits.raw_read_s(path, threads))
        if (took := limits.fio_s(bench.lab.directory, size, "read")) is not None:
            found["fio"].append(took)
    path.unlink()
    return found


def restart(bench: save.Bench) -> None:
    ways = {name: WAYS[name] for name in bench.arguments.ways}
    for model, scale, every in (MODELS[name] for name in bench.arguments.models):
        found: dict[str, list[Killed]] = {name: [] for name in ways}
        absent = {name: obstacle for name, way in ways.items() if (obstacle := way.obstacle())}
        for number in range(bench.arguments.rounds):
            for name in rotated(list(ways), number):
                if name in absent:
                    continue
                with tempfile.TemporaryDirectory(dir=bench.lab.directory) as place:
                    try:
                        killed = kill_once(
                            ways[name],
                            Path(place),
                            scale * bench.arguments.scale,
                            every,
                            # A process that stands by has to import all that the job has imported.
                            pause_s=3 * bench.arguments.pause_s,
                            limit_s=bench.arguments.limit_s,
                        )
                    except FailedError as error:
                        absent[name] = f"failed: {error}"
                        save.say(f"{name}: {error}")
                        continue
                    found[name].append(killed)
        took = {name: [killed.total_s for killed in runs] for name, runs in found.items() if runs}
        bench.raw[f"restart {model}"] = {
            name: [{"parts": killed.parts, "from": killed.saved, "lost": killed.lost} for killed in runs]
            for name, runs in found.items()
        }
        rows = []
        for name, way in ways.items():
            if runs := found[name]:
                parts = [table.shown([killed.parts[i] for killed in runs], 2) for i in range(len(PARTS))]
                rows.append([way.title, table.shown(took[name], 2), *parts])
            else:
                rows.append([way.title, absent.get(name, "-"), *[""] * len(PARTS)])
        text = f"**From SIGKILL to the first new step**, {model}, seconds\n\n"
        bench.tables.append(text + table.markdown(["", "total", *PARTS], rows))
        print(bench.tables[-1] + "\n", flush=True)
        bench.verdicts += goals.of_restart(model, took)


def main() -> int:
    parser = save.make_parser(__doc__, "recover.json", ("restore", "restart"), LOADING)
    parser.add_argument("--ways", type=save.several(list(WAYS)), default=list(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--models", type=save.several(list(MODELS)), default=list(MODELS), help="of small, large")
    arguments = parser.parse_args()
    bench = save.Bench(arguments)
    facts = {**table.machine(arguments.directory), **table.versions(save.DISTRIBUTIONS)}
    try:
        print(table.about(facts) + "\n", flush=True)
        for kind in arguments.kinds if "restore" in arguments.figures else []:
            save.say(f"restore, {kind}")
            restore(bench, kind)
        if "restart" in arguments.figures:
            save.say("restart")
            restart(bench)
    finally:
        bench.finish(facts)
    print(goals.shown(bench.verdicts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
