"""srun for one host: `srun` is this file as a client, and the steps' processes belong to a daemon, as Slurm's do.

What it shares with the real one, as far as the launcher can tell: tasks are not below srun; standard input goes to all
of them and output comes back through srun; SIGTERM to srun has them killed, SIGUSR1 and SIGUSR2 are passed on; with
SLURM_KILL_BAD_EXIT=1 one bad end ends the step; a killed srun leaves the tasks with closed pipes.
"""

import array
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

SOCKET = "FAKE_SLURM_SOCKET"
_STEP = iter(range(10_000))
_ALL: list["subprocess.Popen[bytes]"] = []
_KILL_WAIT_S = 12.0
"""How long the tasks of a step that is being ended may take: Slurm's KillWait, which is longer still."""


def serve(path: str) -> None:
    """The daemon: runs steps until it is killed, and ends what they have left when its standard input ends."""
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(20)
        print("ready", flush=True)
        while True:
            link, _ = listener.accept()
            threading.Thread(target=_run_step, args=(link, next(_STEP)), daemon=True).start()


def _end_with_the_test() -> None:
    sys.stdin.read()
    _send(_ALL, signal.SIGKILL)
    os._exit(0)


def _run_step(link: socket.socket, step: int) -> None:
    data, ancillary, _, _ = link.recvmsg(256 * 1024, socket.CMSG_SPACE(64 * 4))
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    request = json.loads(data)
    out, err, *inputs = fds
    tasks = []
    for number, node in enumerate(request["nodes"]):
        own = {
            "SLURMD_NODENAME": node,
            "SLURM_STEP_ID": str(step),
            "SLURM_PROCID": str(number),
            "SLURM_NTASKS": str(len(inputs)),
        }
        tasks.append(
            subprocess.Popen(
                request["command"],
                env={**request["environment"], **own},
                cwd=request["cwd"],
                stdin=inputs[number],
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        )
    _ALL.extend(tasks)
    for fd in fds:
        os.close(fd)
    threading.Thread(target=_hear_client, args=(link, tasks), daemon=True).start()
    is_strict = (
        request["environment"].get("SLURM_KILL_BAD_EXIT") == "1" and "--kill-on-bad-exit=0" not in request["words"]
    )
    kill_at = None
    while None in (ends := [task.poll() for task in tasks]):
        if is_strict and any(ends):
            _send(tasks, signal.SIGTERM)
            is_strict, kill_at = False, time.monotonic() + _KILL_WAIT_S
        if kill_at is not None and time.monotonic() > kill_at:
            _send(tasks, signal.SIGKILL)
        time.sleep(0.02)
    codes = [128 - task.returncode if task.returncode < 0 else task.returncode for task in tasks]
    with suppress(OSError):
        link.sendall(json.dumps({"code": max(codes)}).encode())
        link.close()


def _hear_client(link: socket.socket, tasks: list["subprocess.Popen[bytes]"]) -> None:
    with suppress(OSError):
        while data := link.recv(1):
            _send(tasks, data[0])


def _send(tasks: list["subprocess.Popen[bytes]"], number: int) -> None:
    for task in tasks:
        if task.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(task.pid, number)


def main(words: list[str]) -> int:
    """The client."""
    split = next(i for i, word in enumerate(words) if not word.startswith("-"))
    options = dict(word.split("=", 1) for word in words[:split] if "=" in word)
    nodes = [f"n{number}" for number in range(1, int(options.get("--nodes", os.environ["SLURM_JOB_NUM_NODES"])) + 1)]
    nodes = options.get("--nodelist", ",".join(nodes)).split(",")
    out, err, *inputs = [os.pipe() for _ in range(2 + len(nodes))]
    request = {
        "nodes": nodes,
        "words": words[:split],
        "command": words[split:],
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
    }
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(os.environ[SOCKET])
    theirs = array.array("i", [out[1], err[1], *(pipe[0] for pipe in inputs)])
    for number, sent in (
        (signal.SIGTERM, signal.SIGKILL),
        (signal.SIGUSR1, signal.SIGUSR1),
        (signal.SIGUSR2, signal.SIGUSR2),
    ):
        signal.signal(number, lambda _, __, sent=sent: link.send(bytes([sent])))
    link.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, theirs)])
    for fd in theirs:
        os.close(fd)
    targets = {out[0]: 1, err[0]: 2}
    reading, answer = {0, out[0], err[0], link.fileno()}, b""
    # A task may have left a process that holds these pipes.
    while not answer.endswith(b"}") or select.select(list(reading & {out[0], err[0]}), [], [], 0)[0]:
        for fd in select.select(list(reading), [], [])[0]:
            data = os.read(fd, 65536)
            if not data:
                reading.discard(fd)
                for _, end in inputs if fd == 0 else []:
                    os.close(end)
            elif fd == 0:
                for _, end in inputs:
                    with suppress(BrokenPipeError):
                        os.write(end, data)
            elif fd == link.fileno():
                answer += data
            else:
                with suppress(BrokenPipeError):
                    os.write(targets[fd], data)
    return int(json.loads(answer)["code"])


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
