"""Runs a script as `python SCRIPT` does, but for its first attempt, which never gets past a step: there it waits for its
death, if that has not come before. `python tests/examples/held.py STEP SCRIPT ARGUMENTS`."""

import os
import runpy
import sys
import time
from typing import Any

import lastgood


def hold_at(last: int) -> None:
    log = lastgood.Run.log

    def log_or_wait(run: lastgood.Run, **values: Any) -> None:
        if run.step >= last:
            time.sleep(600)
        log(run, **values)

    lastgood.Run.log = log_or_wait  # type: ignore[method-assign]


if __name__ == "__main__":
    step, *sys.argv = sys.argv[1:]
    if os.environ["LASTGOOD_ATTEMPT"] == "1":
        hold_at(int(step))
    runpy.run_path(sys.argv[0], run_name="__main__")
