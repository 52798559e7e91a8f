#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
GMX="mpirun gmx_mpi"
$GMX mdrun -deffnm prod
