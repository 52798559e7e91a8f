#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --checkpoint-dir /tmp/ckpt --resume &
PID=$!
while kill -0 $PID; do rsync -a /tmp/ckpt/ /project/ckpt/; sleep 600; done
wait $PID
