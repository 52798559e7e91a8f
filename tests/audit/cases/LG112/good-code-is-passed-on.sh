#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume
rc=$?
[ $rc -eq 75 ] && exit 75
exit $rc
