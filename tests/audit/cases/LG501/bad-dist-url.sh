#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --time=23:00:00
srun python -u pretrain.py --epochs 100 --dist-url tcp://$host:40000 --dist-backend nccl
