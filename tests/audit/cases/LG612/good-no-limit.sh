#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
gmx mdrun -deffnm md -cpi md.cpt
