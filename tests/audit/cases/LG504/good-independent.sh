#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --ntasks=8
srun bash -c 'for i in 1 2 3; do python solve.py --part $SLURM_PROCID && break; done'
