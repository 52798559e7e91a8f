#!/bin/bash
#SBATCH --time=3-0
#SBATCH --gres=gpu:1
python train.py --ckpt-every 1000
