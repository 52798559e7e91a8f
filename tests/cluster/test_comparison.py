"""What requeueing does not do, seen on a real cluster; the page about it says what was seen.

LASTGOOD_WRITE_DOCS=1 writes the page's table anew.
"""

import os
import re
from pathlib import Path

import pytest

from .comparison import ON_PURPOSE, Fault, Observed, run_all, table
from .slurm import SlurmCluster
from .walk import Way

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "what-requeue-does-not-do.md"
_TABLE = re.compile(r"^\| fault \|.*?\n(?=\n)", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(900)
def test_what_requeue_does_not_do(cluster: SlurmCluster, shared: Path) -> None:
    # As the page says.
    cluster.configure(KillWait=5)
    cells = run_all(cluster, shared)
    text = table(cells)
    print(text)
    if os.environ.get("LASTGOOD_WRITE_DOCS") == "1":
        PAGE.write_text(_TABLE.sub(lambda _: text, PAGE.read_text()))
    seen = {(cell.fault, cell.way): cell for cell in cells}
    assert len(cells) == len(seen) == len(Fault) * len(Way)
    assert cluster.run("squeue", "-h", "-a").stdout == "", "nothing is left in the queue"

    # Slurm alone brings a job back where the job itself was not at fault; what it does then is up to the program.
    comes_back = {Fault.NODE, Fault.PREEMPTED, Fault.REQUEUED}
    for fault in Fault:
        plain, own, ours = (seen[fault, way] for way in Way)
        for cell in (plain, own):
            assert cell.is_done == (fault in comes_back), cell
            assert cell.is_right == cell.is_done, cell
        assert plain.steps_again == "all", plain
        check_ours(ours)

    assert _TABLE.search(PAGE.read_text()), f"{PAGE.name} has no table"
    assert text in PAGE.read_text(), f"{PAGE.name} does not say what was seen; LASTGOOD_WRITE_DOCS=1 writes it anew"


def check_ours(cell: Observed) -> None:
    if cell.fault in ON_PURPOSE:
        assert not cell.is_done, cell
        assert cell.states == ("CANCELLED" if cell.fault is Fault.CANCELLED else "FAILED 1:0",), cell
        assert cell.steps_again == ("none" if cell.fault is Fault.CANCELLED else "since the last save"), cell
        return
    assert cell.is_right, cell
    assert cell.states[-1] == "COMPLETED", cell
    if cell.fault in (Fault.NODE, Fault.RANK_KILLED, Fault.RANK_HUNG):
        assert cell.steps_again == "since the last save", cell
    else:
        assert cell.steps_again == "none", cell
