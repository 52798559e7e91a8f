#!/bin/bash
#SBATCH --time=24:00:00
A=$(sbatch --parsable prepare.sh)
B=$(sbatch --parsable --dependency=afterok:$A train.sh)
sbatch --dependency=afterok:$B evaluate.sh
