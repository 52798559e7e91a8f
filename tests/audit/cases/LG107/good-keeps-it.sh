#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
finish() {
  rc=$?
  rm -rf /tmp/w
  exit $rc
}
trap finish EXIT
srun python train.py --resume
