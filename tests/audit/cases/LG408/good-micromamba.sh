#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
srun --kill-on-bad-exit=1 micromamba run -n env python train.py --resume
