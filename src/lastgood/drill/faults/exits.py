"""The command ends with an exit code that the drill chooses, whatever the program itself would have said."""

import socket
import sys
import time
from pathlib import Path
from typing import ClassVar

from lastgood.drill.fault import Call, Calm, Fault, Injected, NoVictimError, Options, Scene
from lastgood.trial.processes import is_alive

_ANSWER_S = 10.0
_SOCKET = "exit-"


class Exit(Fault):
    """A small process runs the command and passes its exit code on, until it is told to end it and to say another."""

    name = "exit"
    options: ClassVar = {"code": "exit code, 0 to 255 (default: 1)"}

    def __init__(self, options: Options) -> None:
        self._code = options.count("code", 1, most=255)

    def missing(self, call: Call) -> str:
        if "--app" in call.target.options:
            return "with --app the command has to be the application's own, and this fault needs a process before it"
        if "--standby" in call.target.options:
            return "with --standby the command has to be python's own, and this fault needs a process before it"
        return ""

    def run_options(self, calm: Calm) -> tuple[str, ...]:
        """A code that looks like an error of the program is not restarted: the drill is about one that is."""
        return ("--restart-on", str(self._code)) if self._code else ()

    def prepare(self, scene: Scene) -> None:
        module = "lastgood.drill.faults.exit_wrapper"
        scene.trial.wrap([sys.executable, "-m", module, str(scene.directory / _SOCKET), "--"])

    def inject(self, scene: Scene) -> Injected:
        sockets = sorted(scene.directory.glob(f"{_SOCKET}*"), key=lambda path: path.stat().st_mtime)
        running = [path for path in sockets if is_alive(_pid_of(path))]
        if not running:
            raise NoVictimError("no start of the command was running")
        pid = _pid_of(running[-1])
        sight = scene.look()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            at = time.time()
            line.sendto(str(self._code).encode(), str(running[-1]))
        scene.wait_until(lambda _: not is_alive(pid), _ANSWER_S)
        evidence = {"step": sight.step, "saved_step": sight.saved_step}
        what = f"the command was made to end with exit code {self._code} (process {pid})"
        return Injected(at, what, (pid,), evidence=evidence)

    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        return not is_alive(injected.pids[0])


def _pid_of(path: Path) -> int:
    return int(path.name.removeprefix(_SOCKET))
