#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH -n 512
MODEL=`pwd`/../build-$TAG/src/model
srun $MODEL input.nml | tee output.txt
