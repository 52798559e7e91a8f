"""What a job under test tells the benchmark: lines of JSON, each by a single write."""

import json
import os
import time


def note(event: str, step: int = 0, at: float | None = None) -> None:
    line = {"pid": os.getpid(), "event": event, "step": step, "at": time.monotonic() if at is None else at}
    fd = os.open(os.environ["BENCH_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)
