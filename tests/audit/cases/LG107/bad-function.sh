#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
finish() {
  rm -rf /tmp/w
  exit 0
}
trap finish EXIT
srun python train.py --resume
