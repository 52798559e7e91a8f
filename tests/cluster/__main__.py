"""`make cluster`: a Slurm cluster to try things on, until Ctrl-C."""

import signal
import sys
from pathlib import Path
from types import FrameType

from .machine import missing
from .slurm import SlurmCluster


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    reason = missing()
    if reason:
        print(f"no cluster: {reason}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    try:
        with SlurmCluster(nodes=nodes) as cluster:
            conf: Path = cluster.directory / "slurm.conf"
            print(f"{nodes} nodes are up; in another terminal: export SLURM_CONF={conf}; sinfo", flush=True)
            print("Ctrl-C here stops them and removes everything.", flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
