#!/bin/bash
#SBATCH -N 1
#SBATCH --time=20:00
cat << EOF
Runs on nodes by powers of 2. The defaults are:
#SBATCH -N 1
#SBATCH --time=20:00
EOF
srun ./program
