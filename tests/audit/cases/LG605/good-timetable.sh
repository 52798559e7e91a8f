#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
sbatch --begin=now+1day $0
rsync -a /project /backup
