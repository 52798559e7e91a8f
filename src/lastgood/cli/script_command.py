"""`lastgood script`: the batch script that `lastgood submit` would submit."""

import argparse
import shlex

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
    for line in order.plan.said:
        output.note(line)
    segments = batch.plan(order, order.options.time_limit_s, output.note)
    script = batch.script_of(order, segments)
    output.put(batch_script(script).rstrip("\n"))
    if script.output and not order.home.is_dir():
        # Slurm ends a job whose output it cannot open, without a word.
        output.note(
            f"before it is submitted, the directory of its output must be there: mkdir -p {shlex.quote(str(order.home))}"
        )
    return 0
