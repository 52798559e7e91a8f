"""On a terminal there is one status line at the bottom, which never mixes with the command's output."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import LIMIT_S, Launcher, wait_for
from .programs import STAND_STILL

pytestmark = pytest.mark.slow


def read_all(terminal: int) -> bytes:
    data = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            # A terminal whose other end is closed answers with an error.
            return data
        if not piece:
            return data
        data += piece


def read_until(terminal: int, text: bytes) -> bytes:
    data = b""

    def has_it() -> bool:
        nonlocal data
        if select.select([terminal], [], [], 0)[0]:
            data += os.read(terminal, 65536)
        return text in data

    wait_for(has_it, f"{text!r} at the terminal")
    return data


def test_the_status_line_is_erased_before_other_output(launcher: Launcher, script) -> None:
    terminal, end = pty.openpty()
    program = STAND_STILL.replace(
        "beat(step, 2 * (turns + step))\n        time",
        "beat(step, 2 * (turns + step))\n            print('line', step)\n        time",
    )
    program = script("moving.py", program.replace("sleep(0.02)", "sleep(0.1)"))
    process = launcher.start("--grace", "1s", "--", sys.executable, program, 0, "moving", stdout=end, stderr=end)
    os.close(end)
    data = read_until(terminal, b"steps/s")
    process.send_signal(signal.SIGTERM)
    data += read_all(terminal)
    os.close(terminal)
    assert process.wait(LIMIT_S) == 75
    assert b"\r\x1b[Kstep " in data and b"line" in data
    # Whatever follows a status line begins by erasing it, and starts at the left margin.
    for piece in data.split(b"\r\x1b[Kstep ")[1:]:
        assert b"\r\x1b[K" in piece or b"\n" not in piece, data[-2000:]
        assert b"line" not in piece.split(b"\r\x1b[K")[0]
    assert b"\x1b" not in (launcher.job / "log.txt").read_bytes()


def test_ctrl_c_at_the_terminal_reaches_the_command_once_through_the_launcher(launcher: Launcher, script) -> None:
    terminal, end = pty.openpty()
    program = script(
        "counts.py",
        "import os, signal, sys, time\ngot = []\nsignal.signal(signal.SIGINT, lambda *_: got.append(1))\n"
        "print('ready', flush=True)\nwhile not (got and os.path.exists(sys.argv[1])): time.sleep(0.05)\n"
        "time.sleep(0.5)\nprint('got', len(got))\nsys.exit(130)\n",
    )

    def make_it_controlling() -> None:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    said = launcher.directory / "said"
    run = [sys.executable, "-m", "lastgood", "run", "--job", str(launcher.job)]
    process = subprocess.Popen(
        [*run, "--", sys.executable, str(program), str(said)],
        stdin=end,
        stdout=end,
        stderr=end,
        env=launcher.environment,
        preexec_fn=make_it_controlling,  # noqa: PLW1509
    )
    os.close(end)
    log = launcher.job / "log.txt"
    wait_for(lambda: log.exists() and "ready\n" in log.read_text())
    os.write(terminal, b"\x03")
    data = read_until(terminal, b"Ctrl-C again")
    # From here on it waits a little for what should not come, the launcher's signal in addition to the terminal's.
    said.touch()
    data += read_all(terminal)
    os.close(terminal)
    assert process.wait(LIMIT_S) == 130
    assert b"got 1" in data


def test_as_process_1_of_a_container_it_forwards_and_reaps(launcher: Launcher, script) -> None:
    launcher.environment["LASTGOOD_KEEPER"] = "off"
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("may not make a process namespace here")
    program = script(
        "one.py",
        "import os, signal, sys, time\n"
        "assert os.getppid() == 1\n"
        "for _ in range(5):\n    if os.fork() == 0:\n        os.fork() or time.sleep(0.1)\n        os._exit(0)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        # Now each of their own children is one of process 1.
        "for _ in range(5): os.wait()\n"
        "for _ in range(2000):\n"
        "    is_alone = open('/proc/1/task/1/children').read().split() == [str(os.getpid())]\n"
        "    if is_alone: break\n"
        "    time.sleep(0.05)\n"
        "print('ready', is_alone, flush=True)\n"
        "while True: time.sleep(0.05)\n",
    )
    run = [sys.executable, "-m", "lastgood", "run", "--job", str(launcher.job), "--", sys.executable, str(program)]
    out = launcher.directory / "out"
    with open(out, "wb") as file:
        process = subprocess.Popen([*unshare, *run], stdout=file, stderr=file, env=launcher.environment)
    # It is written in pieces, and would be broken off where the stop finds it.
    wait_for(lambda: re.search(r"ready \w+\n", out.read_text()), "ready")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    assert process.wait(LIMIT_S) == 75
    assert "ready True" in out.read_text()
    assert "saved and stopped" in out.read_text()
