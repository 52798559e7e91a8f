#!/bin/bash
#SBATCH --time=00:20:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx mdrun -deffnm md -cpi md.cpt -append
