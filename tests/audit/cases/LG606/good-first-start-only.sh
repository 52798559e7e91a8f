#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ "${SLURM_RESTART_COUNT:-0}" -eq 0 ]; then rm -rf ckpt; fi
srun python train.py --save-dir ckpt --resume
