"""How much longer `import lastgood` and `lastgood --help` take than a bare `python -c pass`.

    python bench/startup.py [--rounds 40]

A launcher starts at every attempt and the library at every start of a rank, so both should cost little.
The commands alternate within one run, so that a machine that is busy for a while slows all of them;
each ratio is that of one round. The aim is 2x for the import and 3x for --help.
"""

import argparse
import os
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

from lab import rotated

_SCRIPT = Path(sys.executable).with_name("lastgood")
LASTGOOD = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "lastgood"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import lastgood": [sys.executable, "-c", "import lastgood"],
    "lastgood --help": [*LASTGOOD, "--help"],
    "lastgood ls --help": [*LASTGOOD, "ls", "--help"],
    "import numpy": [sys.executable, "-c", "import numpy"],
}
AIMS = {"import lastgood": 2.0, "lastgood --help": 3.0}


def seconds(command: list[str]) -> float:
    # Not `wait(timeout=...)`: that polls at doubling intervals, and every time would be one of those.
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    end = os.pidfd_open(process.pid)
    is_over, _, _ = select.select([end], [], [], 60)
    taken_s = time.perf_counter() - began
    os.close(end)
    if not is_over:
        process.kill()
    if process.wait() != 0:
        raise SystemExit(f"{command} failed: exit code {process.returncode}")
    return taken_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="how often each command runs (default: 40)")
    rounds = parser.parse_args().rounds
    for command in COMMANDS.values():
        seconds(command)  # the first one also writes byte code
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(rounds):
        # Each follows each other equally often.
        for name in rotated(list(COMMANDS), number):
            taken[name].append(seconds(COMMANDS[name]))
    print(f"{rounds} rounds; Python {sys.version.split()[0]}; median and spread (10th to 90th percentile)\n")
    print(f"{'command':20} {'ms':>7} {'spread':>15} {'ratio':>7} {'spread':>13}  aim")
    bare = taken["python -c pass"]
    for name, times in taken.items():
        ratios = [time_s / bare_s for time_s, bare_s in zip(times, bare, strict=True)]
        ms = [1000 * time_s for time_s in times]
        aim = f"{AIMS[name]:.0f}x or less" if name in AIMS else ""
        print(
            f"{name:20} {statistics.median(ms):7.1f} {_spread(ms, 1):>15} "
            f"{statistics.median(ratios):6.2f}x {_spread(ratios, 2):>13}  {aim}".rstrip()
        )


def _spread(values: list[float], digits: int) -> str:
    tenths = statistics.quantiles(values, n=10)
    return f"{tenths[0]:.{digits}f} to {tenths[-1]:.{digits}f}"


if __name__ == "__main__":
    main()
