"""What the program's own text says about a resume decides, where it is at hand."""

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.rules.lg103_requeue_without_resume import RULE as REQUEUE_WITHOUT_RESUME
from lastgood.audit.rules.lg401_handler_without_signal import RULE as HANDLER_WITHOUT_SIGNAL
from lastgood.audit.rules.lg703_long_without_checkpoint import RULE as LONG_WITHOUT_CHECKPOINT
from lastgood.audit.source import Source

LOOP = """\
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
if __name__ == "__main__":
    {before}
    for epoch in range(100):
        loss = model(torch.ones(4)).sum()
        loss.backward()
        optimizer.step()
        {after}
"""
NOTHING = LOOP.format(before="pass", after="pass")
SAVES = LOOP.format(before="pass", after='torch.save(model.state_dict(), "last.pt")')
RESUMES = LOOP.format(
    before='model.load_state_dict(torch.load("last.pt"))', after='torch.save(model.state_dict(), "last.pt")'
)
SCRIPT = "#!/bin/bash\n#SBATCH --time=72:00:00\n#SBATCH --gres=gpu:4\n{requeue}\nsrun python train.py --epochs 100\n"


def hits(rule: Rule, program: str | None, requeue: str = "#SBATCH --requeue") -> list[Hit]:
    def find(near: str, path: str) -> Program | None:
        assert (near, path) == ("job.sh", "train.py")
        return None if program is None else Program(Source(path, program.encode()))

    script = BatchScript(Source("job.sh", SCRIPT.format(requeue=requeue).encode()))
    return list(rule.check(script, Context(find_program=find)))


def test_a_requeued_program_that_loads_nothing_surely_begins_anew() -> None:
    for program in (NOTHING, SAVES):
        (hit,) = hits(REQUEUE_WITHOUT_RESUME, program)
        assert hit.severity == Severity.LOST
        assert "train.py begins anew" in hit.message and "3 days" in hit.message


def test_a_requeued_program_that_loads_what_it_saved_is_fine() -> None:
    assert hits(REQUEUE_WITHOUT_RESUME, RESUMES) == []


def test_without_the_program_the_requeue_is_only_a_note() -> None:
    (hit,) = hits(REQUEUE_WITHOUT_RESUME, None)
    assert hit.severity is None and REQUEUE_WITHOUT_RESUME.severity == Severity.NOTE
    assert "if the program begins anew" in hit.message


def test_a_program_that_is_no_training_is_not_judged_by_what_it_loads() -> None:
    assert hits(REQUEUE_WITHOUT_RESUME, "print('hello')\n") != []
    assert hits(REQUEUE_WITHOUT_RESUME, "print('hello')\n")[0].severity is None


def test_a_long_program_that_saves_nothing_may_lose_it_all() -> None:
    (hit,) = hits(LONG_WITHOUT_CHECKPOINT, NOTHING, requeue="")
    assert hit.severity == Severity.MAY_BE_LOST and "train.py saves nothing" in hit.message


def test_a_long_program_that_saves_is_not_reported() -> None:
    assert hits(LONG_WITHOUT_CHECKPOINT, SAVES, requeue="") == []
    assert hits(LONG_WITHOUT_CHECKPOINT, "print('hello')\n", requeue="") == []


def test_one_finding_is_enough_for_a_job_that_is_requeued() -> None:
    assert hits(LONG_WITHOUT_CHECKPOINT, NOTHING) == []


def test_lightning_needs_its_signal_only_where_it_knows_of_slurm() -> None:
    program = "import os\nimport pytorch_lightning as pl\n{word}\npl.Trainer().fit(None)\n"
    (hit,) = hits(HANDLER_WITHOUT_SIGNAL, program.format(word="pass"))
    assert hit.severity == Severity.NOTE
    assert hits(HANDLER_WITHOUT_SIGNAL, program.format(word='os.environ["SLURM_JOB_NAME"] = "bash"')) == []
