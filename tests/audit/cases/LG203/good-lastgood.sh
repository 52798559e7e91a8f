#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
lastgood run --job /project/a -- python train.py --checkpoint-dir /tmp/ckpt
