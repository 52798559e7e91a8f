#!/bin/bash
#SBATCH --time=24:00:00
A=$(sbatch --parsable run.sh)
B=$(sbatch --parsable -d afterok:$A run.sh)
