#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
stop() {
    echo stopping
    kill $SRUN_PID
    wait $SRUN_PID
}
trap stop USR1 TERM
srun --kill-on-bad-exit=1 python train.py --resume &
SRUN_PID=$!
wait $SRUN_PID
