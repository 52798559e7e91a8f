#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --output_dir runs/$SLURM_JOB_ID --resume auto
