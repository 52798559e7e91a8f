#!/bin/bash
#SBATCH --time=24:00:00
python -u -c "import work; \
work.run()"
aws sns publish --topic-arn arn:aws:sns:region:1:done --message "done"
