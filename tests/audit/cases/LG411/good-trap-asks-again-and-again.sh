#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
on_limit() {
    while kill -USR1 "$pid" 2>/dev/null; do
        sleep 10
    done
}
python train.py --resume &
pid=$!
trap on_limit USR1
wait "$pid"
rm -f "$SLURM_JOB_ID.pid"
