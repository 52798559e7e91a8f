#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'echo now > STOP; wait; scontrol requeue "$SLURM_JOB_ID"' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
wait
