#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
trap "trap ' ' TERM INT; kill -TERM 0; wait" TERM INT
python train.py --resume & wait
