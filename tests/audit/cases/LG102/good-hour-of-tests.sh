#!/bin/bash
#SBATCH -t 60
#SBATCH --no-requeue
srun pytest tests
