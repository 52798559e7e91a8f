#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@600
set -euo pipefail
python train.py --resume &
pid=$!
trap 'kill -USR1 "$pid" 2>/dev/null || true' USR1 TERM
set +e
wait "$pid"
code=$?
while (( code >= 128 )) && kill -0 "$pid" 2>/dev/null; do
    wait "$pid"
    code=$?
done
exit "$code"
