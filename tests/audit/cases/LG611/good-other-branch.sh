#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ -f md.cpt ]; then
  srun gmx_mpi mdrun -deffnm md -cpi md.cpt -maxh 23
else
  srun gmx_mpi mdrun -deffnm md -maxh 23
fi
