#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
Restart_File=$(ls -t run/*.restart.nc | head -n 1)
srun ./regrid --input $Restart_File
