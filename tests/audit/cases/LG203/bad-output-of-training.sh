#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
OUT=$SLURM_TMPDIR/out
mkdir -p $OUT
srun accelerate launch train.py --output_dir $OUT --save_steps 500
rsync -a $OUT/ /project/out/
