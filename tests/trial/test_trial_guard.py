"""What becomes of a trial when whoever runs it is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lastgood.core.layout import Env
from lastgood.trial import processes
from lastgood.trial.place import make_place
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Trial
from launch.conftest import wait_for

OWNER = """
import sys, time
from pathlib import Path
from lastgood.trial.place import make_place
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Trial

work, root = map(Path, sys.argv[1:])
target = Target(command=("sh", "-c", "sleep 600 & setsid sleep 600 & wait"), directory=work)
with Trial(target, make_place(root, "only", target), Way.BARE) as trial:
    trial.start()
    print(trial.token, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_one_whose_owner_is_killed_is_ended_by_its_guard(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    words = [sys.executable, "-c", OWNER, str(tmp_path / "work"), str(tmp_path / "root")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        token = owner.stdout.readline().strip()
        wait_for(lambda: len(processes.processes_of(token)) >= 3, "the processes of the trial")
        owner.send_signal(signal.SIGKILL)
    wait_for(lambda: not processes.processes_of(token), "the end of the trial")
    wait_for(lambda: not _guards(token), "the end of the guard")


@pytest.mark.slow
def test_one_that_has_ended_leaves_no_guard(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    target = Target(command=("true",), directory=tmp_path / "work")
    with Trial(target, make_place(tmp_path / "root", "only", target), Way.BARE) as trial:
        trial.start()
        assert trial.finish(60.0) == 0
        assert _guards(trial.token)
    assert not _guards(trial.token)
    assert Env.TRIAL not in os.environ


def _guards(token: str) -> list[psutil.Process]:
    return [
        p
        for p in psutil.process_iter()
        if token in processes.words_of(p) and "lastgood.trial.guard" in processes.words_of(p)
    ]
