#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx grompp -f em.mdp -o em.tpr
gmx mdrun -deffnm em
