#!/bin/bash
#PBS -l walltime=24:00:00
#SBATCH -n 4
mpirun ./solve
