#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python run_clm.py --do_train --output_dir out --overwrite_output_dir --resume_from_checkpoint out/checkpoint-500
