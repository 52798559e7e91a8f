#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > in.eq <<END
read_data a.data
run 1000
END
mpirun lmp -in in.eq
