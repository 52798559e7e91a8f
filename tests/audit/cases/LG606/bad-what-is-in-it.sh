#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT_DIR=/project/ckpt
rm -rf ${CKPT_DIR}/*
srun python train.py --save-dir $CKPT_DIR --resume
