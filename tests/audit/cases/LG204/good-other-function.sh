#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
prepare() { cd $(mktemp -d /scratch/XXXX); make; }
(prepare)
srun python train.py --checkpoint-dir ckpt --resume
