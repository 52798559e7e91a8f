#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'kill -TERM "$pid"; wait "$pid"' TERM
gmx mdrun -deffnm md -cpi md.cpt -append &
pid=$!
wait "$pid"
