#!/bin/bash
#SBATCH --time=24:00:00
mpirun -n 20 gmx_mpi mdrun {{ options }}
