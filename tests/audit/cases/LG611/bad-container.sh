#!/bin/bash
#SBATCH --time=24:00:00
srun singularity exec gromacs.sif gmx mdrun -deffnm md -maxh 23
