"""A fault of a drill's plan while the drill runs: whether it was caused, what it did, and whether it is healed."""

from lastgood.drill.course import NEVER_CAME
from lastgood.drill.fault import Fault, Injected, Saved
from lastgood.drill.measure import Watch
from lastgood.drill.spec import Spec


class Strike:
    """From before its moment to after its healing."""

    def __init__(self, number: int, spec: Spec, fault: Fault) -> None:
        self.number = number
        self.spec = spec
        self.fault = fault
        self.injected: Injected | None = None
        self.watch: Watch | None = None
        self.caught = ""
        self.why_not = ""
        self.waits_since: float | None = None
        self.has_effect: bool | None = False
        self.asked_at = 0.0
        self.is_healed = False
        self.is_announced = False
        self.windows = 0
        self.healing_problem = ""
        self.checkpoint: Saved | None = None
        self.checkpoint_step: int | None = None
        self.overwritten_step: int | None = None

    @property
    def is_pending(self) -> bool:
        return self.injected is None and not self.why_not

    def why_never(self) -> str:
        """Why it was not caused until the job had ended; empty if it was."""
        if self.injected is not None:
            return ""
        if self.windows and self.spec.when is not None:
            phase = self.spec.when.phase
            return f"the job was never caught during {phase}: it may be over too soon, or there is none"
        return NEVER_CAME
