#!/bin/bash
# lastgood: ignore LG101, LG099 because the site requeues every job
#SBATCH --time=12:00:00
srun python train.py --resume
