#!/bin/bash
#SBATCH --time=3-0
#SBATCH --gres=gpu:1
python evaluate.py --model m.pt
