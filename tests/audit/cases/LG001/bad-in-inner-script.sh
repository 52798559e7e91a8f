#!/bin/bash
sbatch <<'EOF'
#!/bin/bash
#SBATCH --nodes=2
module load cuda
#SBATCH --requeue
srun python train.py --resume
EOF
