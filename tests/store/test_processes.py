"""A process number that somebody else has now is not taken for the one that it was."""

import os
import subprocess

from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import Holder, holder, lock_job
from lastgood.store.processes import birth_of, is_alive

HERE = os.uname().nodename


def test_this_process_lives_and_no_other_with_its_number_does() -> None:
    birth = birth_of(os.getpid())
    assert birth
    assert is_alive(os.getpid(), birth)
    assert is_alive(os.getpid(), "")
    assert not is_alive(os.getpid(), str(int(birth) - 1))


def test_a_zombie_and_a_process_that_is_gone_do_not_live() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert birth_of(child.pid) is None
    child.wait()
    assert not is_alive(child.pid, "")


def test_a_holder_whose_number_was_used_again_is_dead() -> None:
    birth = birth_of(os.getpid()) or ""
    assert not Holder(os.getpid(), HERE, birth).is_dead
    assert Holder(os.getpid(), HERE, birth + "0").is_dead
    assert not Holder(os.getpid(), "elsewhere", birth + "0").is_dead


def test_who_holds_a_lock_is_known_with_its_birth(job: JobDirectory) -> None:
    with lock_job(job):
        assert holder(job) == Holder(os.getpid(), HERE, birth_of(os.getpid()) or "")
