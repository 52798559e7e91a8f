#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
again() {
  cp log log.old
  sbatch $0
}
trap again EXIT
srun python train.py --resume
