"""`lastgood plan`: how often to save, what a failure costs, and which mechanisms to use."""

import argparse

EPILOG = """\
examples:
  lastgood plan --job runs/x --nodes 16 --time 24:00:00
  lastgood plan --write 2min --stall 3s --nodes 128 --gpus 1024 --preset rsc1
  lastgood plan --measure /scratch/me --parameters 7e9 --nodes 4 --gpus 32 --json > plan.json
  lastgood submit --plan plan.json --job runs/x --nodes=4 -- srun python train.py

Durations have a unit (90s, 10min, 2h, 1-12:00:00). Letters: C stall, M mean time between interruptions, I interval,
P = I + C, L = write - stall, D = detection + queue, R restart; u0 = detection + restart, w = C and T = I as in
Kokolis et al. What nobody has said is assumed, and that is said.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from lastgood.cli import arguments

    parser.usage = "lastgood plan [options]"
    parser.epilog = EPILOG
    _configure_save(parser)
    failures = parser.add_argument_group("failures").add_mutually_exclusive_group()
    failures.add_argument("--failures", metavar="RATE", help="of each node: 6.5/1000nd is 6.5 in 1,000 node-days")
    failures.add_argument("--preset", choices=("rsc1", "rsc2", "llama3"), help="a published rate: 6.50, 2.34 or 3.79")
    failures.add_argument(
        "--history", metavar="FILE", help="counted: what `lastgood history --sacct ... --json` printed"
    )
    failures.add_argument("--mtti", metavar="DURATION", help="mean time between interruptions of the whole job")
    add = parser.add_argument
    add("--others", metavar="N/day", help="what interrupts the job however many nodes it has: preemption, maintenance")
    add("--shape", metavar="K", help="Weibull shape of the time between failures (default: 1, no memory)")
    add("--nodes", type=arguments.at_least(1), metavar="N", help="nodes of the job (default: 1)")
    add("--gpus", type=arguments.at_least(1), metavar="N", help="GPUs of the job in all, for GPU-hours")
    add("--same-nodes", metavar="N%", help="of all interruptions, those after which it starts on the nodes that it had")
    add("--detection", metavar="DURATION", help="from a failure until somebody acts (default: 1min)")
    add("--restart", metavar="DURATION", help="from a start to its first new step (default: the journal's, or 5min)")
    add("--queue", metavar="DURATION", help="wait for nodes after an interruption (default: 0s)")
    add("--most-lost", metavar="DURATION", help="no more than this may be lost at once")
    add(
        "--max-write-share",
        metavar="N%",
        help="share of the time that storage may be busy with writes (default: 10%%, more where --most-lost needs it)",
    )
    add("--max-bandwidth", metavar="SPEED", help="mean bandwidth that writes may take, such as 1GB/s")
    add("--every", metavar="DURATION", help="judge this interval in place of the best one")
    add("--step", metavar="DURATION", help="one step, to count lost steps and for the margin of a stop")
    add("--time", metavar="DURATION", help="time limit of a batch job")
    add("--work", metavar="DURATION", help="how much computing there is, such as 30d")
    add(
        "--policy", metavar="FILE", action="append", default=[], help="slurm.conf, or what scontrol show config printed"
    )
    add("--partition", metavar="NAME", help="the partition to look at in --policy")
    add("--grace", metavar="DURATION", help="what a preemption leaves after its signal (GraceTime, or KillWait)")
    add("--exempt", metavar="DURATION", help="PreemptExemptTime: how long a job runs before it may be preempted")
    add("--no-requeue", action="store_true", help="this cluster starts no job again")
    add("--plot", metavar="FILE", help="draw lost time over the interval, as FILE.png or FILE.svg")
    add("--json", action="store_true", help="print JSON, which `lastgood submit --plan` reads")


def _configure_save(parser: argparse.ArgumentParser) -> None:
    from lastgood.cli import arguments

    add = parser.add_argument_group("what a save costs").add_argument
    add("--job", metavar="DIR", help="take it from the journals of a job that has saved")
    add("--measure", metavar="DIR", help="time real saves below DIR; they are removed afterwards")
    add("--measure-most", metavar="SIZE", help="write no more than this each time, and scale (default: 4GB)")
    add("--write", metavar="DURATION", help="from a save's begin until the checkpoint is safe")
    add("--write-speed", metavar="SPEED", help="the same as bytes a second, such as 2GB/s")
    add("--stall", metavar="DURATION", help="the part of it for which the loop stands still")
    add("--bytes", metavar="SIZE", help="state: 98GB, or bytes for each parameter times parameters, 14x7e9")
    add("--parameters", metavar="N", help="state by the number of trained parameters, such as 7e9")
    add("--recipe", choices=_recipes(), help="bytes for each parameter (default: adam-mixed, 14)")
    add(
        "--writers",
        type=arguments.at_least(1),
        metavar="N",
        help="nodes that write at once at the measured speed (default: 1)",
    )
    add("--local-write", metavar="DURATION", help="a write to the node's own disk, to compare")
    add("--measure-local", metavar="DIR", help="time saves to the node's own disk, to compare")
    add("--replica-write", metavar="DURATION", help="a copy to another node's memory, to compare")


def _recipes() -> tuple[str, ...]:
    from lastgood.plan.quantities import RECIPES

    return tuple(RECIPES)


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.plan_inputs import inputs_of
    from lastgood.cli.plan_text import text_of
    from lastgood.plan.answer import answer
    from lastgood.plan.solve import solve
    from lastgood.plan.walking import searched_s, simulated

    inputs = inputs_of(parsed)
    solved = solve(inputs.situation, simulator=simulated, searcher=searched_s)
    plan = answer(inputs.situation, solved, inputs.cluster, inputs.assumed)
    if parsed.plot is not None:
        from lastgood.plan.plotting import draw

        draw(parsed.plot, inputs.situation, solved)
    for line in inputs.notes:
        output.note(line)
    if parsed.json:
        output.put_json(plan)
    else:
        output.put(text_of(plan, inputs.situation))
    return 0
