#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'touch STOP' USR1
gmx mdrun -deffnm md -cpi md.cpt -append -maxh 23.5
