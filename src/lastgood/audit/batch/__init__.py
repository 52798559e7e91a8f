"""A Slurm batch script, as sbatch and bash read it."""
