#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
[ -f md.gro ] && exit
sbatch --dependency=afterok:$SLURM_JOB_ID $0
srun gmx_mpi mdrun -deffnm md -cpi md.cpt -maxh 23
