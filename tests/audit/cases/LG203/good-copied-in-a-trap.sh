#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@300
save() { cp -r /tmp/ckpt /project/; }
trap save TERM
srun python train.py --checkpoint-dir /tmp/ckpt --resume &
wait
save
