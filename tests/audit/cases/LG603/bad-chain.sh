#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=1-9%1
#SBATCH --no-requeue
CKPT=$(ls -v /project/ckpt/*.pt 2>/dev/null | tail -1)
srun python train.py ${CKPT:+--resume $CKPT}
