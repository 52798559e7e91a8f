#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx check -f md.cpt || srun gmx_mpi mdrun -deffnm md -cpi md_prev.cpt -maxh 23
