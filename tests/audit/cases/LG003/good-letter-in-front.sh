#!/bin/bash
#SBATCH --time=24:00:00
#xSBATCH --qos=normal
#SBATCH --requeue
srun python train.py --resume
