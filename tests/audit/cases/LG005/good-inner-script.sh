#!/bin/bash
for n in 1 2 4; do
cat > job-$n.sh <<EOF
#!/bin/bash
#SBATCH --nodes=$n
#SBATCH --requeue
srun python train.py --resume
EOF
sbatch job-$n.sh
done
