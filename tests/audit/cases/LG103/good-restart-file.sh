#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ -f restart.dat ]; then IN=restart.dat; else IN=start.dat; fi
srun ./solver $IN
