{% extends base %}
#SBATCH --time=10:00:00
#SBATCH --requeue
srun python train.py --resume
