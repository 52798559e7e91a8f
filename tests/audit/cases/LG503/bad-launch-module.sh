#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
srun --kill-on-bad-exit=1 bash -c 'python -m torch.distributed.run --nnodes 2 --nproc_per_node 8 --max_restarts 2 \
    --node_rank $SLURM_NODEID --master_addr $HEAD --master_port 6000 train.py --resume'
