"""What `lastgood run --app gromacs` costs: the wall time of a simulation under it, against that of the bare command.

    python bench/apps.py [--rounds 5] [--seconds 20] [--directory DIR] [--output FILE]

A box of water, on one thread, for as many steps as take about that long here. The bare command writes its checkpoints at
the same interval as under the launcher, so that the ratio is that of the launcher alone. Both commands run once in each
round, the one that is first takes turns; each ratio is that of a round's two neighbours. The aim is 1.01.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_INPUTS = Path(__file__).parents[1] / "tests" / "apps" / "gromacs"
_MDRUN = ("gmx", "-quiet", "mdrun", "-ntmpi", "1", "-ntomp", "1", "-reprod")
_INTERVAL_MIN = 0.1
_TRIAL_STEPS = 2000
AIM = 1.01


def make_input(place: Path, steps: int) -> Path:
    """A run input of so many steps."""
    place.mkdir(parents=True)
    shutil.copy(_INPUTS / "topol.top", place)
    for command in (
        ("solvate", "-cs", "spc216.gro", "-box", "2.2", "-o", "conf.gro", "-p", "topol.top"),
        ("grompp", "-f", str(_INPUTS / "md.mdp"), "-c", "conf.gro", "-p", "topol.top", "-o", "made.tpr"),
        ("convert-tpr", "-s", "made.tpr", "-nsteps", str(steps), "-o", "topol.tpr"),
    ):
        subprocess.run(["gmx", "-quiet", *command], cwd=place, check=True, capture_output=True)
    return place / "topol.tpr"


def seconds(run_input: Path, place: Path, *, is_launched: bool) -> float:
    """Wall time of one whole simulation in a new directory, which is gone afterwards."""
    place.mkdir()
    command = [*_MDRUN, "-s", str(run_input), "-cpt", str(_INTERVAL_MIN)]
    if is_launched:
        command = [sys.executable, "-m", "lastgood", "run", "--job", "job", "--app", "gromacs", "--", *command]
    environment = {**os.environ, "LASTGOOD_STATE_DIR": str(place / "state")}
    with open(place / "said.txt", "wb") as said:
        began = time.perf_counter()
        done = subprocess.run(command, cwd=place, env=environment, stdout=said, stderr=said, check=False)
        taken_s = time.perf_counter() - began
    if done.returncode != 0 or not (place / "confout.gro").exists():
        raise SystemExit(f"{command} failed: exit code {done.returncode}\n{(place / 'said.txt').read_text()[-3000:]}")
    shutil.rmtree(place)
    return taken_s


def measure(directory: Path, rounds: int, wanted_s: float) -> dict[str, Any]:
    trial_s = seconds(make_input(directory / "trial", _TRIAL_STEPS), directory / "run", is_launched=False)
    steps = max(round(wanted_s / trial_s * _TRIAL_STEPS), 100)
    run_input = make_input(directory / "input", steps)
    taken: dict[bool, list[float]] = {False: [], True: []}
    loads = [os.getloadavg()[0]]
    for number in range(rounds):
        for is_launched in (False, True) if number % 2 == 0 else (True, False):
            taken[is_launched].append(seconds(run_input, directory / "run", is_launched=is_launched))
        loads.append(os.getloadavg()[0])
    ratios = [ours / bare for ours, bare in zip(taken[True], taken[False], strict=True)]
    return {
        "steps": steps,
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in loads],
        "bare_s": taken[False],
        "launched_s": taken[True],
        "ratios": ratios,
        "median_ratio": statistics.median(ratios),
        "aim": AIM,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each command runs (default: 5)")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="wall time of a simulation, such as 60 (default: 20)"
    )
    parser.add_argument("--directory", type=Path, help="where to work (default: a temporary directory)")
    parser.add_argument("--output", type=Path, help="where to keep what was found, as JSON")
    arguments = parser.parse_args()
    if shutil.which("gmx") is None:
        raise SystemExit("GROMACS is not installed: there is no gmx in PATH")
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        found = measure(Path(directory), arguments.rounds, arguments.seconds)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    print(
        f"{arguments.rounds} rounds of {found['steps']} steps on {found['cores']} cores; load at the start and after each "
        f"round {', '.join(map(str, found['load']))}\n"
    )
    print(f"{'command':28} {'median s':>9} {'lowest to highest':>18}")
    for name, times in (("gmx mdrun", found["bare_s"]), ("lastgood run -- gmx mdrun", found["launched_s"])):
        print(f"{name:28} {statistics.median(times):9.2f} {f'{min(times):.2f} to {max(times):.2f}':>18}")
    ratios = found["ratios"]
    print(
        f"\nratio {found['median_ratio']:.4f} (lowest {min(ratios):.4f}, highest {max(ratios):.4f}); aim {AIM} or less"
    )


if __name__ == "__main__":
    main()
