#!/bin/bash
#SBATCH --time=24:00:00
lastgood run --job runs/x -- srun python train.py
