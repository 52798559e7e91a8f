"""Starting a keeper: one of many who try, from any program, wherever it runs and whatever lies around."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import lastgood
from keeper.conftest import descriptors_of
from keeper.ranks import LIMIT_S, Rank, until
from lastgood.keeper import protocol
from lastgood.keeper.client import Keeper, NoKeeperError
from lastgood.keeper.starting import start_keeper
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import JobDirectory

pytestmark = pytest.mark.slow

START = (
    "import os, sys; from lastgood.keeper.starting import start_keeper; from lastgood.store.jobdir import open_job\n"
    "start_keeper(open_job(sys.argv[1]), 0.0, dict(os.environ), is_detached=True)\n"
)
SOURCES = str(Path(lastgood.__file__).parent.parent)


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a program that starts a keeper, in a directory of its own."""

    def run(
        job: JobDirectory, *flags: str, text: str = START, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        script = tmp_path / "program" / "train.py"
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
        return subprocess.run(
            [sys.executable, *flags, str(script), str(job.path)],
            cwd=script.parent,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return run


@pytest.fixture
def ended(job: JobDirectory) -> Iterator[None]:
    """Whatever keeper is left of the job is ended."""
    yield
    try:
        link = Keeper(job)
    except NoKeeperError:
        return
    os.kill(link.pid, 9)
    link.close()


def saves(job: JobDirectory) -> None:
    """The job has a keeper, which can do its work and goes when nobody needs it."""
    rank = Rank(job)
    pid = rank.keeper.pid
    rank.commit(1)
    rank.die()
    until(lambda: not psutil.pid_exists(pid))
    assert [c.step for c in list_checkpoints(job) if c.is_committed] == [1]


pytest_ended = pytest.mark.usefixtures("ended")


@pytest_ended
def test_of_many_who_start_one_at_once_one_wins_and_serves_all(job: JobDirectory) -> None:
    answers: list[object] = []

    def start() -> None:
        process = start_keeper(job, 0.0, dict(os.environ), is_detached=False)
        answers.append(process)

    threads = [threading.Thread(target=start) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (process,) = [answer for answer in answers if answer is not None]
    assert isinstance(process, subprocess.Popen)
    links = [Keeper(job) for _ in range(20)]
    assert {link.pid for link in links} == {process.pid}
    for link in links:
        link.bye()
    assert process.wait(LIMIT_S) == 0


@pytest_ended
def test_hundreds_may_connect_before_it_is_ready(job: JobDirectory) -> None:
    process = start_keeper(job, 0.0, dict(os.environ), is_detached=False)
    assert process is not None
    os.kill(process.pid, 19)
    links: list[Keeper] = []
    threads = [threading.Thread(target=lambda n=n: links.append(Keeper(job, n, LIMIT_S))) for n in range(300)]
    for thread in threads:
        thread.start()
    os.kill(process.pid, 18)
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(links) == 300
    for link in links:
        link.bye()
    assert process.wait(LIMIT_S) == 0


@pytest_ended
def test_a_detached_one_belongs_to_nobody(job: JobDirectory) -> None:
    assert start_keeper(job, 0.0, dict(os.environ), is_detached=True) is None
    link = Keeper(job)
    process = psutil.Process(link.pid)
    assert link.pid not in {child.pid for child in psutil.Process().children(recursive=True)}
    assert os.getsid(link.pid) != os.getsid(0)
    assert process.cwd() == "/"
    assert descriptors_of(link.pid).count("/dev/null") == 3
    assert process.terminal() is None
    link.bye()
    until(lambda: not psutil.pid_exists(link.pid))


@pytest_ended
def test_modules_that_lie_beside_the_program_are_not_taken_for_pythons_own(
    job: JobDirectory, program: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    # They are not imported by this small program; a keeper would import them all.
    (tmp_path / "program").mkdir()
    for name in ("resource", "traceback", "concurrent", "bisect", "mmap", "selectors"):
        (tmp_path / "program" / f"{name}.py").write_text("raise SystemExit('not mine')\n")
    text = "import sys; here = sys.path.pop(0)\n" + START.replace(
        "start_keeper(open", "sys.path.insert(0, here); start_keeper(open"
    )
    done = program(job, text=text)
    assert done.returncode == 0, done.stderr
    saves(job)


@pytest_ended
@pytest.mark.parametrize("flags", [(), ("-I",), ("-E",), ("-s",), ("-O",), ("-B", "-u"), ("-W", "error")])
def test_python_may_be_started_in_many_ways(
    job: JobDirectory, program: Callable[..., "subprocess.CompletedProcess[str]"], flags: tuple[str, ...]
) -> None:
    done = program(job, *flags)
    assert done.returncode == 0, done.stderr
    saves(job)


@pytest_ended
def test_without_site_packages_modules_are_found_where_the_program_finds_them(
    job: JobDirectory, program: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    places = [place for place in sys.path if "site-packages" in place or place == SOURCES]
    done = program(job, "-S", "-E", text=f"import sys; sys.path += {places!r}\n{START}")
    assert done.returncode == 0, done.stderr
    saves(job)


@pytest_ended
def test_the_keeper_runs_the_very_code_that_the_program_runs(
    job: JobDirectory, program: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    # A copy that only this program imports from, found in no other way.
    copy = tmp_path / "copy"
    shutil.copytree(Path(lastgood.__file__).parent, copy / "lastgood", ignore=shutil.ignore_patterns("__pycache__"))
    init = copy / "lastgood" / "__init__.py"
    init.write_text(init.read_text().replace("__version__ =", "__version__ = '7.7' #", 1))
    done = program(job, text=f"import sys; sys.path.insert(0, {str(copy)!r})\n{START}")
    assert done.returncode == 0, done.stderr
    with pytest.raises(NoKeeperError, match=r"version 7\.7"):
        Keeper(job)


@pytest_ended
@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONWARNINGS": "error"},
        {"PYTHONINSPECT": "1"},
        {"PYTHONOPTIMIZE": "2"},
        {"PYTHONPATH": "relative/place"},
        {"PYTHONUNBUFFERED": "1", "PYTHONDEVMODE": "1"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"},
    ],
    ids=str,
)
def test_the_environment_may_be_anything(
    job: JobDirectory, program: Callable[..., "subprocess.CompletedProcess[str]"], environment: dict[str, str]
) -> None:
    done = program(job, **environment)
    assert done.returncode == 0, done.stderr
    saves(job)


@pytest_ended
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_program_may_have_no_standard_streams(job: JobDirectory, tmp_path: Path, closed: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from lastgood.runtime.finding import occupy_standard_descriptors\noccupy_standard_descriptors()\n" + START
    )
    command = f'exec "$0" "$1" "$2" {closed}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, str(script), str(job.path)], timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0
    saves(job)


def test_python_that_cannot_be_found_or_does_not_work_is_an_error(
    job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(OSError, match="nonexistent"):
        start_keeper(job, 0.0, dict(os.environ), is_detached=True)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match=r"did not start \(exit code 1\)"):
        start_keeper(job, 0.0, dict(os.environ), is_detached=True)
    with pytest.raises(NoKeeperError, match="none is running"):
        Keeper(job)


@pytest_ended
def test_where_python_does_not_say_which_it_is_the_one_of_the_path_is_taken(
    job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", "")
    start_keeper(job, 0.0, dict(os.environ), is_detached=True)
    saves(job)


def test_why_it_did_not_start_is_said(job: JobDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\necho 'cannot do this' >&2\nexit 3\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with pytest.raises(OSError, match=r"did not start \(exit code 3: cannot do this\)"):
        start_keeper(job, 0.0, dict(os.environ), is_detached=True)


def breaking(tmp_path: Path, what: str) -> dict[str, str]:
    """An environment in which something in the keeper raises."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(what)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "broken")}


def test_a_keeper_that_fails_leaves_its_last_words_in_the_jobs_output(job: JobDirectory, tmp_path: Path) -> None:
    environment = breaking(tmp_path, "import os\ndef fail(*a): raise MemoryError('of the writer')\nos.pwrite = fail\n")
    process = start_keeper(job, 0.0, environment, is_detached=False)
    assert process is not None
    rank = Rank(job)
    rank.save(1)
    with pytest.raises(OSError):
        rank.keeper.events(LIMIT_S)
    assert process.wait(LIMIT_S) == 1
    rank.die()
    said = job.log.read_text()
    assert f"lastgood: the keeper (process {process.pid}) has failed:" in said
    assert "MemoryError: of the writer" in said


def test_a_job_that_cannot_be_opened_is_said_there_too(job: JobDirectory) -> None:
    (job.path / "job.json").write_text("damaged")
    process = start_keeper(job, 0.0, dict(os.environ), is_detached=False)
    assert process is not None
    assert process.wait(LIMIT_S) == 1
    assert "job.json" in job.log.read_text()


def test_a_package_that_it_lacks_is_said_to_who_starts_it(job: JobDirectory, tmp_path: Path) -> None:
    environment = breaking(tmp_path, "import sys\nsys.modules['msgspec'] = None\n")
    with pytest.raises(OSError, match=r"did not start \(exit code 1: ModuleNotFoundError: .*msgspec"):
        start_keeper(job, 0.0, environment, is_detached=True)


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest_ended
def test_each_network_namespace_has_keepers_of_its_own(job: JobDirectory) -> None:
    start_keeper(job, 0.0, dict(os.environ), is_detached=True)
    outside = Keeper(job)
    program = f"{START}from lastgood.keeper.client import Keeper\nlink = Keeper(open_job(sys.argv[1])); print(link.pid); link.bye()\n"
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", program, str(job.path)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert int(done.stdout) != outside.pid
    until(lambda: not psutil.pid_exists(int(done.stdout)))
    outside.bye()


@pytest_ended
def test_limits_of_the_program_are_not_the_keepers(job: JobDirectory) -> None:
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, {4096}))\n{START}"
    subprocess.run([sys.executable, "-c", program, str(job.path)], timeout=LIMIT_S, check=True)
    link = Keeper(job)
    assert "4096" in Path(f"/proc/{link.pid}/limits").read_text().split("Max open files")[1].split("\n")[0].split()[0]
    link.close()


@pytest_ended
def test_a_keeper_that_is_short_of_descriptors_serves_who_it_can_and_others_later(job: JobDirectory) -> None:
    program = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))\n{START}"
    subprocess.run([sys.executable, "-c", program, str(job.path)], timeout=LIMIT_S, check=True)
    first = Rank(job)
    first.commit(1)
    process = psutil.Process(first.keeper.pid)
    others: list[Keeper] = []
    while len(others) < 40:
        try:
            others.append(Keeper(job, limit_s=15.0))
        except NoKeeperError:
            break
    assert others and len(others) < 40
    before = sum(process.cpu_times()[:2])
    with pytest.raises(NoKeeperError):
        Keeper(job, limit_s=2.0)
    used = sum(process.cpu_times()[:2]) - before
    # Far from what a loop that spins gets even of a machine on which it has to share.
    assert used < 0.2, "it does not spin"
    for one in others:
        one.close()
    Keeper(job).close()
    first.commit(2)
    first.die()


def test_the_address_is_free_again_as_soon_as_it_has_ended(job: JobDirectory) -> None:
    for _ in range(5):
        process = start_keeper(job, 0.0, dict(os.environ), is_detached=False)
        assert process is not None
        assert protocol.address(job.id)[0] == 0
        Keeper(job).bye()
        assert process.wait(LIMIT_S) == 0
