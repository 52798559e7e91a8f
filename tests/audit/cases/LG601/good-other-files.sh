#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
NODE=$(ls nodes/* | tail -1)
HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun python train.py --resume --head $HEAD --node $NODE
