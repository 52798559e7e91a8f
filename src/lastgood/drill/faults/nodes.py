"""A node goes down and comes up again, by commands that the site provides: only it knows how its nodes are switched off."""

import os
import shlex
import socket
import subprocess
import time
from typing import Any, ClassVar

from lastgood.core.errors import LastgoodError, UsageError
from lastgood.drill.fault import Call, Fault, Hooks, Injected, NoVictimError, Options, Scene

NODE = "{node}"
_HOOK_LIMIT_S = 600.0


class NodeDown(Fault):
    name = "node"
    options: ClassVar = {
        "node": "its name (default: the one that the journal names, or this one)",
        "for": "how long it stays down (default: until the job has come through it)",
    }

    def __init__(self, options: Options) -> None:
        self._given = options.text("node", "")
        self.lasts_s = options.duration_s("for", "") or None
        self._down: set[str] = set()

    def missing(self, call: Call) -> str:
        if not call.hooks.node_down or not call.hooks.node_up:
            return f"it needs --node-down 'COMMAND {NODE}' and --node-up 'COMMAND {NODE}'"
        check_hooks(call.hooks)
        return ""

    def inject(self, scene: Scene) -> Injected:
        node = self._given or _node_of(scene)
        sight = scene.look()
        if not sight.is_running:
            raise NoVictimError("the job was not running")
        # Before it is tried: a command that fails half way may have taken the node down.
        self._down.add(node)
        at = time.time()
        done = run_hook(scene.hooks.node_down, node)
        if done["exit_code"] != 0:
            raise LastgoodError(f"--node-down for {node} failed: {_said(done)}")
        evidence = {"node": node, "step": sight.step, "saved_step": sight.saved_step, "node_down": done}
        return Injected(at, f"node {node} was taken down", evidence=evidence)

    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        """The hook said so; that it hit the job is seen in what the job does next."""
        sight = scene.look()
        return not sight.is_running or not scene.trial.of_command() or None

    def heal(self, scene: Scene) -> None:
        failed: dict[str, str] = {}
        for node in sorted(self._down):
            done = run_hook(scene.hooks.node_up, node)
            # Not before: who is interrupted meanwhile tries it again.
            self._down.discard(node)
            if done["exit_code"] != 0:
                failed[node] = _said(done)
        if failed:
            raise LastgoodError(
                "; ".join(f"--node-up for {node} failed: {said}" for node, said in failed.items()),
                remedy=f"bring {', '.join(failed)} up by hand: it may still be down",
            )


def check_hooks(hooks: Hooks) -> None:
    """Raises UsageError for a command that cannot be taken apart into words: too late once the node is down."""
    for option, command in (("--node-down", hooks.node_down), ("--node-up", hooks.node_up)):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"{option} {command}: {error}", safe="nothing was started") from None
        if not words:
            raise UsageError(f"{option} {command!r} names no command", safe="nothing was started")


def run_hook(command: str, node: str) -> dict[str, Any]:
    """Run a command of the site, NODE replaced by the node's name; how it ended, and the end of what it said."""
    words = [word.replace(NODE, node) for word in shlex.split(command)]
    began = time.monotonic()
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_HOOK_LIMIT_S,
            env=dict(os.environ),
            check=False,
        )
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        code, said = -1, f"had not ended after {_HOOK_LIMIT_S:.0f} s".encode()
    except OSError as error:
        code, said = 127, f"{words[0]}: {error.strerror}".encode()
    text = said.decode(errors="replace").strip()[-500:]
    return {"command": shlex.join(words), "exit_code": code, "took_s": time.monotonic() - began, "said": text}


def _node_of(scene: Scene) -> str:
    for record in reversed(scene.trial.records()):
        for kind in ("allocation", "launched"):
            event = record.first(kind)
            node = event and (event.data.get("node") or event.data.get("host"))
            if isinstance(node, str) and node:
                return node
    return socket.gethostname()


def _said(done: dict[str, Any]) -> str:
    return f"exit code {done['exit_code']}" + (f": {done['said'].splitlines()[-1]}" if done["said"] else "")
