#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun ./server --restart &
while true; do
  pg_dump -p 5432 me | gzip > db.gz
  sleep 60
done
