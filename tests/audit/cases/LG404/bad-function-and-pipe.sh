#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
on_limit() {
    touch STOP
    scontrol requeue "$SLURM_JOB_ID"
}
trap on_limit USR1
srun --kill-on-bad-exit=1 python train.py --resume 2>&1 | tee -a train.log
