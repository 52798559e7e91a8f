#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --array=1-5%1
srun gmx_mpi mdrun -deffnm md -cpi md.cpt -maxh 23
