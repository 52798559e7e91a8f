#!/bin/bash
#SBATCH -n 4
module load x
#SBATCH --time=24:00:00
mpirun ./solve
