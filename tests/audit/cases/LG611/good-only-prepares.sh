#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx grompp -f md.mdp -c a.gro -o md.tpr
