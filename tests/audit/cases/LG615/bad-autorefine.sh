#!/bin/bash
#SBATCH --time=24:00:00
mpirun -n 5 relion_refine_mpi --o Refine3D/job020/run --auto_refine --i p.star --ref m.mrc
