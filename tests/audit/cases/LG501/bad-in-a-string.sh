#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
export MASTER_ADDR=$(hostname) MASTER_PORT=6000
srun bash -c 'RANK=$SLURM_PROCID python train.py --resume'
