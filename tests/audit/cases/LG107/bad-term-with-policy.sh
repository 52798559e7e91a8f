#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
trap 'scancel --signal=TERM $SLURM_JOB_ID.0; wait $pid; exit 0' TERM
wait $pid
