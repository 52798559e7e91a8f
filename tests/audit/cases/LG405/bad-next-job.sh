#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
next() {
    echo "submitting the next segment"
    sbatch "$0"
    exit 0
}
trap next USR1
python train.py --resume &
wait
