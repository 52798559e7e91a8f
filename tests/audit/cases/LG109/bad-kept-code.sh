#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume
exit_code=$?
date
if [[ "${exit_code}" -gt 0 ]]; then
  sbatch "$0"
fi
