#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
on_signal() {
    touch STOP
    wait "$pid"
}
trap on_signal SIGUSR1
python train.py &
pid=$!
wait "$pid"
