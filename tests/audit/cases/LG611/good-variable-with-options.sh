#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun gmx_mpi mdrun -deffnm md $EXTRA
