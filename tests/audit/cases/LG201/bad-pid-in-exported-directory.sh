#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export CHECKPOINT_DIR=/project/runs/$$
mkdir -p $CHECKPOINT_DIR
srun python train.py --config big.yaml
