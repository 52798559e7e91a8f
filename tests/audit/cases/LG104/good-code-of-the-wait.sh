#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume &
pid=$!
wait $pid
rc=$?
echo over
exit $rc
