#!/bin/bash
#SBATCH --time=3-0
Rscript fit.R
