module load cuda

#!/bin/bash
#SBATCH --requeue
#SBATCH --time=12:00:00
srun python train.py --resume
