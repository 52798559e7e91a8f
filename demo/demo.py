"""The kill test: a real training job is killed three times, resumed each time, and compared bit for bit
with the same job left alone. Exits with 1 if anything differs.

    make demo
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

import lastgood

ROOT = Path(__file__).resolve().parent.parent
TRAIN = ["examples/numpy_loop.py", "--epochs"]
LASTGOOD = [sys.executable, "-m", "lastgood"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=300, help="length of the training (default: 300)")
    parser.add_argument("--grace", type=int, default=2, help="seconds that the job has to save and stop (default: 2)")
    options = parser.parse_args()
    epochs = options.epochs
    work = Path(tempfile.mkdtemp(prefix="lastgood-demo-"))
    os.environ["LASTGOOD_STATE_DIR"] = str(work / "state")
    try:
        disturbed, calm = work / "disturbed", work / "undisturbed"
        landed = run_disturbed(disturbed, epochs, options.grace)
        heading("The same job again, left alone")
        run_to_the_end(calm, epochs)
        return compare(disturbed, calm, landed)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_disturbed(job: Path, epochs: int, grace: int) -> int:
    """Run the job under two SIGKILLs and one SIGTERM at random moments; how many of them hit it at work."""
    heading(f"A job that is killed twice without warning, and told once to stop within {grace} seconds")
    launcher = start(job, epochs, grace)
    landed = 0
    for number in (1, 2):
        victim = wait_for_training(job, launcher, attempt=number)
        if victim is None:
            break
        landed += strike(victim, signal.SIGKILL)
    if wait_for_training(job, launcher, attempt=3) is not None:
        note(f"SIGTERM to the launcher, which gives its job {grace} seconds (attempt 3, step {step_of(job)})")
        launcher.terminate()
        landed += 1
    code = launcher.wait(timeout=180)
    note(f"the launcher ended with exit code {code}" + (": progress is saved, run me again" if code == 75 else ""))
    note("the same command line once more:")
    run_to_the_end(job, epochs)
    return landed


def strike(victim: psutil.Process, number: signal.Signals) -> int:
    try:
        victim.send_signal(number)
    except psutil.NoSuchProcess:
        return 0
    note(f"kill -{number.name.removeprefix('SIG')} {victim.pid}")
    victim.wait(timeout=180)
    return 1


def wait_for_training(job: Path, launcher: subprocess.Popen[bytes], attempt: int) -> psutil.Process | None:
    """The training process of an attempt, at a moment between 0.1 and 1.1 seconds after its first save.

    None if the job was over before that moment.
    """
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and launcher.poll() is None:
        journal = events_of(job, attempt)
        if "committed" in journal:
            time.sleep(0.1 + secrets.randbelow(1000) / 1000)
            try:
                return psutil.Process(journal["launched"]["pid"])
            except psutil.NoSuchProcess:
                return None
        time.sleep(0.02)
    return None


def events_of(job: Path, attempt: int) -> dict[str, dict[str, Any]]:
    """The newest event of each kind in the journal of an attempt."""
    journal = job / "attempts" / f"{attempt:04d}.events.jsonl"
    lines = journal.read_text().split("\n")[:-1] if journal.exists() else []
    return {event["kind"]: event["data"] for event in map(json.loads, lines)}


def step_of(job: Path) -> int:
    return int(status(job)["attempts"][-1]["reached_step"])


def start(job: Path, epochs: int, grace: int) -> subprocess.Popen[bytes]:
    command = [*LASTGOOD, "run", "--job", str(job), "--grace", f"{grace}s", "--", sys.executable, *TRAIN, str(epochs)]
    words = " ".join([*TRAIN, str(epochs)])
    print(f"$ lastgood run --job disturbed --grace {grace}s -- python {words}", flush=True)
    return subprocess.Popen(command, cwd=ROOT)


def run_to_the_end(job: Path, epochs: int) -> None:
    command = [*LASTGOOD, "run", "--job", str(job), "--", sys.executable, *TRAIN, str(epochs)]
    code = subprocess.run(command, cwd=ROOT, timeout=1800, check=False).returncode
    if code != 0:
        raise SystemExit(f"demo: the job ended with exit code {code} instead of 0")


def status(job: Path) -> dict:
    answer = subprocess.run(
        [*LASTGOOD, "status", str(job), "--json"], capture_output=True, text=True, timeout=180, check=False
    )
    return json.loads(answer.stdout)


def weights_of(job: Path) -> dict[str, bytes]:
    """The final weights, read back from the last good checkpoint with every checksum verified."""
    import numpy

    exported = job / "final.npz"
    subprocess.run(
        [*LASTGOOD, "export", str(job), "--to", str(exported), "--entry", "weights", "--overwrite"],
        check=True,
        capture_output=True,
        timeout=180,
    )
    with numpy.load(exported) as arrays:
        return {name: arrays[name].tobytes() for name in arrays.files}


def compare(disturbed: Path, calm: Path, landed: int) -> int:
    heading("Side by side")
    one, other = status(disturbed), status(calm)
    print("  attempt   began from   reached   lost   ended by")
    for a in one["attempts"]:
        how = f"step {a['from_step']}"
        print(f"  {a['attempt']:>7}   {how:>10}   {a['reached_step']:>7}   {a['lost_steps']:>4}   {a['outcome']}")
    logs = lastgood.read_log(disturbed), lastgood.read_log(calm)
    accuracies = [next(v["accuracy"] for v in reversed(log.values()) if "accuracy" in v) for log in logs]
    differing = [step for step in logs[0].keys() | logs[1].keys() if logs[0].get(step) != logs[1].get(step)]
    same_weights = weights_of(disturbed) == weights_of(calm)
    print()
    print(f"  {'':28}{'disturbed':>12}{'undisturbed':>14}")
    print(f"  {'attempts':28}{len(one['attempts']):>12}{len(other['attempts']):>14}")
    print(f"  {'steps':28}{max(logs[0]):>12}{max(logs[1]):>14}")
    print(f"  {'steps done again':28}{one['lost_steps']:>12}{other['lost_steps']:>14}")
    print(f"  {'accuracy on unseen digits':28}{accuracies[0]:>12.2%}{accuracies[1]:>14.2%}")
    print()
    recorded = f"{len(logs[1]) - len(differing)} of {len(logs[1])} recorded steps equal bit for bit"
    print(f"  final weights: {'equal bit for bit' if same_weights else 'DIFFERENT'};  {recorded}")
    equal = same_weights and not differing
    if landed < 3:
        print(
            f"  UNKNOWN: only {landed} of 3 faults hit the job while it was at work; try --epochs with a larger number"
        )
        return 1
    print(
        "  PASS: the killed job gives the same answer"
        if equal
        else f"  FAIL: first difference at step {min(differing, default=-1)}"
    )
    return 0 if equal else 1


def heading(text: str) -> None:
    print(f"\n=== {text}\n", flush=True)


def note(text: str) -> None:
    print(f"--- {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
