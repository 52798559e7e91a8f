# How the data was made
sftp user@host
get -r data

#!/bin/bash -l
#SBATCH -A project
#SBATCH -t 6:00:00
nextflow run main.nf -resume

#!/bin/bash -l
#SBATCH -A project
#SBATCH -t 24:00:00
rsync -a --delete work/ old/
