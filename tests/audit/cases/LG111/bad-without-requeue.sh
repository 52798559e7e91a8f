#!/bin/bash
#SBATCH --time=24:00:00
until srun python train.py --resume; do sleep 10; done
