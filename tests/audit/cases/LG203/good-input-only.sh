#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cp -r /project/data $SLURM_TMPDIR
srun python train.py --data-dir $SLURM_TMPDIR/data --checkpoint-dir /project/ckpt --resume
