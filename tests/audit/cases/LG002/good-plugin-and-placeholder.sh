#!/bin/bash
#SBATCH --container-name=pytorch
#SBATCH --partition={{ partition }}
#SBATCH --account=[your account, e.g. m123]
#SBATCH --array=0-$((last - first))
#SBATCH --cluster=gpu
#SBATCH --frobnicate=yes
#SBATCH -J "two words" --mem 4G # and a remark
#SBATCH --requeue
srun python train.py --resume
