"""Where attempts run: what is written down of it, and whether the job may run there at all (`--same-gpu`)."""

from collections.abc import Callable, Mapping, Sequence

from lastgood.core.accounting import Record
from lastgood.core.machine_facts import counted
from lastgood.launch.history import read_records
from lastgood.launch.nvidia import GpusNotToldError
from lastgood.store.attempts import Journal
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory

EVENT = "surroundings"


class Ground:
    """This node, for one job."""

    def __init__(
        self, job: JobDirectory, facts: Mapping[str, str], find_gpus: Callable[[], Sequence[str]] | None = None
    ) -> None:
        """`facts` for the journal: of a command that keeps none itself. `find_gpus`: the models of those that the job may
        use here, one for each; None if any will do. It may raise GpusNotToldError."""
        self._job = job
        self._facts = dict(facts)
        self._find_gpus = find_gpus
        self._models: list[str] | None = None

    def problem(self, *, is_fresh: bool) -> str:
        """Why no attempt may run here; empty if one may. Asked before each: a GPU can be lost in between."""
        if self._find_gpus is None:
            return ""
        try:
            self._models = models = list(self._find_gpus())
        except GpusNotToldError as error:
            return f"which GPUs are here cannot be told: {error}"
        if is_fresh:
            return ""
        with explained("read the history of", self._job.attempts, safe="nothing was changed"):
            first = first_with_gpus(read_records(self._job))
        if first is None or counted(first[1]) == counted(models):
            return ""
        number, began_on = first
        return f"attempt {number} ran on {counted(began_on)}, and here the job would have {counted(models)}"

    def note(self, journal: Journal) -> None:
        """Write down where an attempt runs."""
        found: dict[str, object] = {"fingerprint": self._facts} if self._facts else {}
        if self._models is not None:
            found["gpu_models"] = self._models
        journal.write(EVENT, **found)


def first_with_gpus(records: Sequence[Record]) -> tuple[int, list[str]] | None:
    """The first attempt since the last new start of which it is known on which GPUs it ran, and their models."""
    begin = max((place for place, record in enumerate(records) if record.is_fresh), default=0)
    for record in records[begin:]:
        event = record.last(EVENT)
        if event is not None and isinstance(models := event.data.get("gpu_models"), list):
            return record.number, [str(model) for model in models]
    return None
