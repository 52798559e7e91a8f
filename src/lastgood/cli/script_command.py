"""`lastgood script`: the batch script that `lastgood submit` would submit."""

import argparse

EPILOG = """\
What stands before -- and is no option of lastgood is for sbatch, and comes into the script as it is.

example:
  lastgood script --job runs/x --time=24:00:00 --nodes=2 -- srun python train.py > x.sh; sbatch x.sh
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from lastgood.cli import batch

    batch.configure(parser)
    parser.usage = "lastgood script [options] [options of sbatch] -- COMMAND [ARGUMENT ...]"
    parser.epilog = EPILOG


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import batch, output
    from lastgood.schedulers.slurm_script import batch_script

    order = batch.order_of(parsed)
    segments = batch.plan(order, order.options.time_limit_s, output.note)
    output.put(batch_script(batch.script_of(order, segments)).rstrip("\n"))
    return 0
