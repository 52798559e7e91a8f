#!/bin/bash
#SBATCH --time=24:00:00
[ -z "${SLURM_JOB_ID:-}" ] && exec sbatch "$0" "$@"
srun python train.py --resume > train.log
