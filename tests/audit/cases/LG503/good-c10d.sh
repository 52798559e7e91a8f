#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
srun --kill-on-bad-exit=1 torchrun --nnodes 2 --nproc_per_node 8 --max_restarts 3 --rdzv_backend c10d --rdzv_endpoint $HEAD:6000 train.py --resume
