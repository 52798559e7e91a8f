"""The plan that a job was submitted with, from the batch script that the submission left in its directory."""

from lastgood.core.errors import LastgoodError
from lastgood.core.layout import BATCH_FILE
from lastgood.report.saving import Planned
from lastgood.schedulers.slurm_script import planned_interval_s
from lastgood.store import durable
from lastgood.store.jobdir import JobDirectory

_MOST_BYTES = 1 << 20


def noted_plan(job: JobDirectory) -> Planned | None:
    """None if it was submitted without a plan, or in another way, or if the script cannot be read."""
    try:
        text = durable.read_file(job.path / BATCH_FILE, _MOST_BYTES).decode(errors="replace")
    except (OSError, LastgoodError):
        return None
    interval_s = planned_interval_s(text)
    return None if interval_s is None else Planned(interval_s, BATCH_FILE)
