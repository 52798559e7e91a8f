"""Rules about requeueing and limits answer for whatever lines a script is made of."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Rule
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source

LINES = [
    "srun python train.py --resume",
    "srun a | tee b",
    "srun a |",
    "srun a || true",
    "srun a || f",
    "srun a &",
    "wait",
    "wait %1",
    "wait $!",
    "rc=$?",
    "exit $rc",
    "exit",
    "exit 75",
    "exit 0",
    "set -e",
    "set +e -o pipefail",
    "trap 'scontrol requeue $SLURM_JOB_ID; exit 0' USR1 EXIT",
    "trap f TERM",
    "f() {",
    "f",
    "}",
    "if [ $? -ne 0 ]; then",
    "else",
    "fi",
    "until srun a; do",
    "while true; do",
    "done",
    "sbatch $0",
    'bash -c "srun a; date"',
    "cat <<EOF > x",
    "EOF",
    "(",
    ")",
    "#SBATCH --time=1:00:00 # 1 hour",
    "#SBATCH --requeue --no-requeue",
    "#SBATCH -p a,b -t 99-0",
    "torchrun --max-restarts=x a.py",
    "'",
    "$(",
]
RULES = [rule for rule in all_rules() if rule.family in ("requeue", "limits")]
POLICY = Policy(
    [
        Source(
            "slurm.conf", b"ClusterName=x\nRequeueExit=1,75\nJobRequeue=0\nPartitionName=a Nodes=ALL MaxTime=1:00:00\n"
        )
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=14))
def test_every_rule_gives_places_and_words(lines: list[str]) -> None:
    text = "\n".join(["#!/bin/bash", "#SBATCH --time=1-0", *lines, ""])
    script = BatchScript(Source("job.sh", text.encode()))
    for rule in RULES:
        for context in (Context(), Context(policy=POLICY)):
            for hit in rule.check(script, context):
                assert 1 <= hit.span.line <= script.source.line_count
                assert hit.message and hit.remedy


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_an_empty_script_has_nothing_to_lose(rule: Rule) -> None:
    for data in (b"", b"#!/bin/bash\n", b"#SBATCH\n", b"\xff\xfe\x00", b"#!/bin/bash\n#SBATCH --time=1-0\n"):
        assert list(rule.check(BatchScript(Source("job.sh", data)), Context(policy=POLICY))) == []
