#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --no-requeue
echo "#!/bin/bash
#SBATCH --time=10:00:00
#SBATCH --requeue
srun python train.py" > next.sh
NEXT="#!/bin/bash
#SBATCH --time=10:00:00
"
sbatch next.sh
