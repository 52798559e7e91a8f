#!/bin/bash
#SBATCH --time=3-0
#SBATCH --nodes=2
for f in *.in; do srun ./solve $f; done
