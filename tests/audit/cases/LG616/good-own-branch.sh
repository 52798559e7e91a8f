#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ -f md2.cpt ]; then srun gmx_mpi mdrun -deffnm md2 -cpi md2.cpt -maxh 23
else srun gmx_mpi mdrun -deffnm md2 -cpi md1.cpt -noappend -maxh 23; fi
