#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > /project/case/system/controlDict <<END
startFrom firstTime; // from the beginning
endTime 10;
END
cd /project/case
srun simpleFoam
