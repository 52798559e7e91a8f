#!/bin/bash
#SBATCH --time=24:00:00
CKPT=$(ls -v /project/ckpt/*.pt 2>/dev/null | tail -1)
srun python train.py ${CKPT:+--resume $CKPT}
