#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
[ -d processor0 ] || decomposePar -force
srun icoFoam -parallel
