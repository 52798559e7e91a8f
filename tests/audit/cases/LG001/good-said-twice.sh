#!/bin/bash
#SBATCH --time=10:00:00
#SBATCH --requeue
set -euo pipefail
#SBATCH --requeue
srun python train.py --resume
