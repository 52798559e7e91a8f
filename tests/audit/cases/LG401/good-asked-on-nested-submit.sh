#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'touch STOP' USR1
# The next segment, with its own lead.
sbatch --signal=B:USR1@600 "$0"
python train.py &
wait
