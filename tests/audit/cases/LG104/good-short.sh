#!/bin/bash
#SBATCH --time=10:00
python check.py
date
