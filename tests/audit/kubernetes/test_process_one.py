"""What is said about shells as process 1 is what real shells do."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.audit.kubernetes.process import ending_of
from lastgood.audit.kubernetes.reading import read_manifests
from lastgood.audit.source import Source

PROGRAM = 'import signal; print("here", flush=True); signal.sigwait([signal.SIGUSR1])'
TERM = 1 << (signal.SIGTERM - 1)

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")


def expected(shell: str, script: str) -> bool:
    """True if the program is said to be told."""
    text = (
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n"
        f"        command: [{shell}, -c]\n        args:\n        - |\n          {script}\n"
    )
    (manifest,), _ = read_manifests(Source("x.yaml", text.replace("PROGRAM", "python train.py").encode()))
    ending = ending_of(manifest.groups[0].containers[0])
    return ending is None or (ending.how == "last" and shell == "bash")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize(
    "script",
    [
        "PROGRAM",
        "cd /; PROGRAM",
        "cd / && PROGRAM",
        "exec PROGRAM",
        "PROGRAM; true",
        "PROGRAM || exit 1",
        "PROGRAM | cat",
        "PROGRAM & wait",
        "for i in 1; do PROGRAM; done",
        "trap : TERM; PROGRAM",
        "trap : USR1; PROGRAM; true",
    ],
)
def test_a_program_is_told_where_nothing_is_said(shell: str, script: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = script.replace("PROGRAM", f"{sys.executable} {program}")
    process = subprocess.Popen([shell, "-c", command], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        is_program = not status["Name"].startswith(shell)
        has_handler = bool(int(status["SigCgt"], 16) & TERM)
    finally:
        # The session is this test's own: the shell and whatever it started.
        subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=False)
        process.communicate()
    assert (is_program or has_handler) == expected(shell, script)
