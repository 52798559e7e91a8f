#!/bin/bash
sbatch <<EOF
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=$HOME/logs/%j.out
#SBATCH --mail-user=$USER
srun python train.py --resume
EOF
