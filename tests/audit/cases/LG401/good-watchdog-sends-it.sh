#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'touch STOP' USR1
(sleep 82800; kill -USR1 $$) &
python train.py &
wait
