#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx mdrun -deffnm md -cpi md.cpt -maxh $HOURS
