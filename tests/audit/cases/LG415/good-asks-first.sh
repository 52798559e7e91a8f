#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
again() {
    kill -USR1 "$pid"
    wait "$pid"
    if [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = PREEMPTED ]; then
        scontrol requeue "$SLURM_JOB_ID"
    fi
}
trap again TERM
python train.py --resume &
pid=$!
wait "$pid"
