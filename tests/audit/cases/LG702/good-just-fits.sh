#!/bin/bash
#SBATCH -t 240
srun python train.py --resume
