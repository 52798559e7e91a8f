#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@60
. /usr/common/software/variable-time-job/setup.sh
requeue_job func_trap USR1
srun --kill-on-bad-exit=1 ./solver --restart &
wait
