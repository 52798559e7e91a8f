#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap : TERM
gmx mdrun -deffnm md -cpi md.cpt -append
gmx energy -f md.edr
