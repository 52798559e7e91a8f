#!/bin/bash
#SBATCH --time=24:00:00
cd $TMPDIR
bwa mem ref.fa reads.fq > out.sam
cp out.sam $SLURM_SUBMIT_DIR
