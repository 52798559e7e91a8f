#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cp topol.tpr $TMPDIR
cd $TMPDIR
gmx mdrun -s topol.tpr -cpi state.cpt -maxh 23
cp -r * $SLURM_SUBMIT_DIR
