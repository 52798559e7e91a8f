#!/bin/sh
for n in 1 2 3; do
    sbatch -J "n$n" job.sh
done
exit 0

# An older one:
#SBATCH --job-name=test
#SBATCH --time=24:00:00
srun ./program
