#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun samtools sort --output-dir out-$(date +%F) reads.bam
