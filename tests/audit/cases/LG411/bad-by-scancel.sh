#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
on_limit() {
    scancel --signal=USR1 "$SLURM_JOB_ID"
    sbatch "$0"
}
trap on_limit SIGUSR1
srun --kill-on-bad-exit=1 python train.py --resume &
wait
