#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls -t out/*.pt | head -1)
python -c "import sys, torch; torch.load(sys.argv[1])" $CKPT || CKPT=$(ls -t out/*.pt | sed -n 2p)
srun python train.py --resume $CKPT
