"""What failures cost a cluster, by Slurm's accounting: rows in, figures with their uncertainty out."""
