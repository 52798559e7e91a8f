#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=1-5%1
#SBATCH --output=log.out
#SBATCH --open-mode=append
srun ./a
