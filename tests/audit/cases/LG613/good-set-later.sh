#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > system/controlDict <<END
startFrom startTime;
END
foamDictionary -entry startFrom -set latestTime system/controlDict
srun simpleFoam
