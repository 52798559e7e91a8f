#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py hydra.run.dir=outputs/$(date +%F_%H-%M-%S) trainer.resume=true
