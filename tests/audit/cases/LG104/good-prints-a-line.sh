#!/bin/bash
#SBATCH --time=12:00:00
. ./commonFunctions.sh
if [[ "$passed" == "$all" ]]; then
    print_to_log "All passed" "$results"
fi
unset passed
unset all
