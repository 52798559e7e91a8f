#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@600
set -e
trap 'kill -USR1 "$pid"' USR1 TERM
uv run -m package.train --resume &
pid=$!
while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done
