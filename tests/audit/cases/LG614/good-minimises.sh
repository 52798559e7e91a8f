#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > in.eq <<END
read_data a.data
minimize 1e-4 1e-6 100 1000
END
mpirun lmp -in in.eq
