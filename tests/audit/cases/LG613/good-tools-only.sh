#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > system/controlDict <<END
startFrom startTime;
END
setExprFoam
