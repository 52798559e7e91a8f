#!/bin/bash
#SBATCH --array=0-9
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%A_%a.out
again() {
    local id=$SLURM_JOBID
    kill -USR1 "$pid"
    wait "$pid"
    scontrol requeue $id
}
trap again USR1
python train.py --resume &
pid=$!
wait "$pid"
