#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=1
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
torchrun --nproc_per_node 8 --max_restarts 3 train.py --resume
