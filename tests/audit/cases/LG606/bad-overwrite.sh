#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun torchrun run_clm.py --model_name_or_path gpt2 --do_train --output_dir out --overwrite_output_dir --save_steps 500
