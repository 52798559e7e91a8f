"""Which checkpoints a drill sees, and when it takes them to have been written."""

import os
import sys
from pathlib import Path

from faults import states
from lastgood.core.layout import MANIFEST_FILE, checkpoint_name
from lastgood.drill.checkpoints import checkpoints_of
from lastgood.store import attempts, jobdir
from lastgood.trial.place import make_place
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Trial


def test_what_a_killed_start_has_left_in_a_checkpoint_does_not_make_it_a_newer_one(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    target = Target(command=(sys.executable, "-c", ""), directory=tmp_path / "work")
    place = make_place(tmp_path / "root", "one", target)
    job = jobdir.create_job(place.job)
    attempts.claim_attempt(job, "")
    states.write(job, 10, 1)
    path = job.checkpoints / checkpoint_name(10, 1)
    os.utime(path / MANIFEST_FILE, (1000.0, 1000.0))
    (path / "rejected.json.0123456789abcdef.part").write_bytes(b"")
    (found,) = checkpoints_of(Trial(target, place, Way.LASTGOOD))
    assert (found.step, found.at) == (10, 1000.0)
