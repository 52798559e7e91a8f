#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST=$(ls -1 "$CKPT_DIR"/epoch_*.pth 2>/dev/null | sort | tail -n 1 || true)
RESUME=""
if [[ -n "$LATEST" ]]; then RESUME="--resume_from_checkpoint $LATEST"; fi
if [ -z "$LATEST" ] && [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then exit 1; fi
srun python train.py $RESUME
