#!/bin/bash
#SBATCH --time=20
srun gmx_mpi mdrun -deffnm md
