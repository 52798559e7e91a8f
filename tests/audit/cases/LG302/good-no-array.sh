#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --output=log.out
srun ./a
