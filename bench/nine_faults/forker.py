"""A process that has imported a job's libraries, and forks once for each start of the job.

    python forker.py MODULE ...      requests on standard input, answers on standard output, JSON lines

Importing takes seconds and is no part of any fault; what follows the fork is a start like any other, up to
the interpreter's own end: its exit code, its handlers, its traceback.
"""

import gc
import importlib
import json
import os
import runpy
import sys


def serve(modules: list[str]) -> str:
    """Returns in each child only, with the script that it should run."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for module in modules:
        importlib.import_module(module)
    import torch

    torch.set_num_threads(1)
    # The optimizer imports half of torch when the first one is made.
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    # Children that neither search nor free what they share with this process end without copying it.
    gc.collect()
    gc.freeze()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            answers.close()
            _become(request)
            return str(request["script"])
        print(json.dumps({"pid": pid}), file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=answers, flush=True)
    # Its children are gone by now: nothing is left to clean up.
    os._exit(0)


def _become(request: dict[str, object]) -> None:
    os.setsid()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    log = os.open(str(request["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)


if __name__ == "__main__":
    script = serve(sys.argv[1:])
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
