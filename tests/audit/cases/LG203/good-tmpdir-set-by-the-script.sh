#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export TMPDIR=/project/$USER/tmp
srun python train.py --checkpoint-dir $TMPDIR/ckpt --resume
