#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@180
on_signal() {
    if [ "$1" = TERM ]; then
        echo "cancelled"
    else
        scontrol requeue "$SLURM_JOB_ID"
    fi
}
trap 'on_signal USR1' USR1
trap 'on_signal TERM' TERM
python train.py --resume &
wait
