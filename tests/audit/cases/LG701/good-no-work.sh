#!/bin/bash
#SBATCH -n 1
module load x
cp a b
