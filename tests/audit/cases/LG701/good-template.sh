#!/bin/bash
#SBATCH --time=%%TIME%%
srun python train.py --resume
