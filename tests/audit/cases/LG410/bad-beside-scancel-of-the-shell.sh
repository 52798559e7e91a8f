#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:SIGTERM@120
forward() {
    if [ -n "${SRUN_PID:-}" ]; then
        scancel --signal=TERM --batch "$SLURM_JOB_ID" 2>/dev/null
        kill -TERM "$SRUN_PID" 2>/dev/null
    fi
}
trap forward SIGTERM
srun --kill-on-bad-exit=1 singularity exec image.sif python track.py --resume &
SRUN_PID=$!
wait $SRUN_PID
