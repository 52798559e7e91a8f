#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'scontrol requeue "$SLURM_JOB_ID"; exit 1' USR1
python monitor.py --interval 5 &
monitor=$!
srun --kill-on-bad-exit=1 python train.py --resume
kill "$monitor"
