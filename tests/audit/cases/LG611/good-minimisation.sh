#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx grompp -f minim.mdp -c a.gro -o a.tpr
gmx mdrun -s a.tpr
gmx mdrun -deffnm em
