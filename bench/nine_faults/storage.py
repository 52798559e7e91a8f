"""F6: the folder is gone or empty at the restart, then back. F7: a disk of 1.5 checkpoints, then space again."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nine_faults.lab import TOTAL, Cell, Lab, NotTriedError
from nine_faults.verdict import Outcome


def folder_gone(lab: Lab) -> Cell:
    """F6. As when a file system is not mounted: no folder, then an empty one, then the old one again."""
    lab.restore()
    aside = lab.root / "aside"
    shutil.rmtree(aside, ignore_errors=True)
    lab.store.rename(aside)
    gone = lab.judge(lab.settle())
    shutil.rmtree(lab.store, ignore_errors=True)
    lab.store.mkdir()
    empty = lab.judge(lab.settle())
    shutil.rmtree(lab.store)
    aside.rename(lab.store)
    back = lab.judge(lab.settle())
    return Cell(
        f"{gone}, {empty}; back: {back}",
        gone.word == empty.word == "refused" and back.is_exact,
        [f"gone: {gone}", f"empty: {empty}", f"back: {back}"],
    )


def disk_full(lab: Lab) -> Cell:
    """F7. The job begins on a small disk, is started again while that is full, and again when it has grown."""
    lab.restore()
    size = sum(path.stat().st_blocks * 512 for path in lab.system.newest(lab.store))
    lab.clear()
    with _small_disk(lab, int(size * 1.5)) as grow:
        full = [lab.start().finish(), lab.start().finish()]
        grow(size * 20)
        after = lab.settle()
        resumed = after[-1].resumed
    verdict = lab.judge(after)
    notes = [f"while full: exit {o.code}, from step {o.resumed} to {o.last_step}" for o in full]
    notes += [f"with space: exit {o.code}, from step {o.resumed} to {o.last_step}" for o in after]
    # Whoever says that all is done has to have saved what came out.
    claims_too_much = any(outcome.code == 0 for outcome in full) and resumed != TOTAL
    text = f"{_while_full(full)}{' without its last checkpoint' if claims_too_much else ''}; then {verdict}"
    return Cell(text, verdict.is_exact and resumed != 0 and not claims_too_much, notes)


def _while_full(tries: list[Outcome]) -> str:
    first, second = tries
    if first.code == 0:
        return "finishes"
    if first.last_step < TOTAL:
        again = "crash loop while full" if second.last_step <= first.last_step else "gets further when repeated"
        return f"dies at {first.last_step} (exit {first.code}), {again}"
    return f"trains on to {first.last_step}, exit {first.code}"


@contextmanager
def _small_disk(lab: Lab, size: int) -> Iterator[Callable[[int], object]]:
    """A memory file system of that many bytes as the store; gives a function that changes its size."""
    lab.store.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(lab.store)],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise NotTriedError(f"no small disk can be mounted here (needs root): {made.stderr.strip()}")
    try:
        yield lambda bigger: subprocess.run(
            ["mount", "-o", f"remount,size={bigger}", str(lab.store)], check=True, capture_output=True
        )
    finally:
        subprocess.run(["umount", "--lazy", str(lab.store)], check=True, capture_output=True)
