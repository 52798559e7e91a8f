#!/bin/bash
#SBATCH --time=24:00:00
rsync -a /data /scratch/data
