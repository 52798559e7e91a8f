#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx grompp -f md.mdp -o md.tpr
gmx mdrun -deffnm md -cpi md.cpt -append
gmx energy -f md.edr
