#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --gres=gpu:1
python train.py
