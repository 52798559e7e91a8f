"""What a cluster on one machine needs of the machine: packages, ports, munge, and sight of its processes."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

PROGRAMS = {
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "srun": "slurm-wlm",
    "slurmdbd": "slurmdbd",
    "munged": "munge",
    "mariadbd": "mariadb-server",
    "mysql_install_db": "mariadb-server",
}
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"

# Below the ports that the kernel gives out by itself, so that nobody gets one of ours by chance.
_FIRST_PORT, _BLOCK, _BLOCKS = 20_000, 24, 500


def missing() -> str:
    """Why no cluster can be started here; empty if one can."""
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program, path=PATH) is None})
    if packages:
        return f"not installed: {' '.join(packages)} (apt-get install -y --no-install-recommends {' '.join(packages)})"
    if os.geteuid() != 0:
        return "a cluster with nodes and device files of its own needs root"
    return ""


def wait_until(true: Callable[[], object], what: str, limit_s: float, evidence: Callable[[], str] = str) -> None:
    """Looks often until `true()`.

    Errors: AssertionError with `evidence()` after `limit_s`.
    """
    end = time.monotonic() + limit_s
    pause = 0.02
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {limit_s:g} s\n{evidence()}")
        time.sleep(pause)
        pause = min(pause * 1.3, 0.25)


class Ports:
    """A block of free ports that no other cluster on this machine takes while this object holds it.

    The claim is an abstract socket, so it ends with the process, however that ends.
    """

    def __init__(self) -> None:
        order = list(range(_BLOCKS))
        secrets.SystemRandom().shuffle(order)
        for block in order:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"\0lastgood-test-cluster-{block}")
            except OSError:
                claim.close()
                continue
            self._claim = claim
            self.numbers = [_FIRST_PORT + block * _BLOCK + index for index in range(_BLOCK)]
            if all(map(_is_free, self.numbers)):
                return
            claim.close()
        raise RuntimeError("no block of free ports on this machine")

    def release(self) -> None:
        self._claim.close()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def start_munge() -> None:
    """munge serves the whole machine: started where it is not running, and left."""
    if _munge_answers():
        return
    user = pwd.getpwnam("munge")
    for directory in (Path("/run/munge"), Path("/var/log/munge"), Path("/var/lib/munge")):
        directory.mkdir(exist_ok=True)
        os.chown(directory, user.pw_uid, user.pw_gid)
        directory.chmod(0o755 if directory.parent == Path("/run") else 0o700)
    # Of several that start it at once, one wins; the others find it answering.
    subprocess.run(
        ["munged"],
        user="munge",
        group="munge",
        extra_groups=[],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": PATH},
        start_new_session=True,
        check=False,
    )
    wait_until(_munge_answers, "munged answers", 120)


def _munge_answers() -> bool:
    return subprocess.run(["munge", "-n"], env={"PATH": PATH}, capture_output=True, check=False).returncode == 0


def daemon(words: Iterable[str | Path], log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Starts a program that stays in the foreground and dies with us, also if we are killed."""
    with log.open("ab") as output:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **environment},
        )


def end(process: subprocess.Popen[bytes], signal_number: int = signal.SIGTERM, limit_s: float = 10) -> None:
    """Ends a daemon of ours; one that does not end in time is killed."""
    process.send_signal(signal_number)
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def processes_with(told: Callable[[dict[str, str]], bool], logs: set[str]) -> list[psutil.Process]:
    """The processes whose environment is `told`, those that hold one of these log files open, and all below either.

    slurmstepd writes its title over its environment, so it is known by its node's log file.
    """
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if process.pid in found or process.pid == os.getpid():
            continue
        try:
            stepd = process.name() == "slurmstepd"
            if _holds(process.pid, logs) if stepd else told(process.environ()):
                found[process.pid] = process
                found.update((child.pid, child) for child in process.children(recursive=True))
        except (psutil.Error, OSError):
            continue
    found.pop(os.getpid(), None)
    return [process for process in found.values() if is_alive(process)]


def _holds(pid: int, paths: set[str]) -> bool:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(descriptor) in paths:
                return True
        except OSError:
            continue
    return False


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def send(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def freeze(find: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    """Stops all that `find` finds, until it finds nothing that still runs: then nobody has seen another's end."""
    frozen: dict[int, psutil.Process] = {}
    for _ in range(50):
        more = [process for process in find() if process.pid not in frozen]
        if not more:
            break
        send(more, signal.SIGSTOP)
        frozen.update((process.pid, process) for process in more)
    return list(frozen.values())
