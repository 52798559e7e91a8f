#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cd $(mktemp -d /scratch/XXXX)
tar xf /project/code.tar
cd $SLURM_SUBMIT_DIR
srun python train.py --checkpoint-dir ckpt --resume
