"""What a job wrote down, life by life. A life is one process of the job."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Life:
    pid: int
    resumed: int | None = None
    """Steps that were done when it began; None if it never got so far."""
    steps: list[int] = field(default_factory=list)
    losses: dict[int, str] = field(default_factory=dict)
    samples: dict[int, list[int]] = field(default_factory=dict)
    is_at_gate: bool = False
    final: str | None = None
    """Hash of the final weights; None if it did not finish."""

    @property
    def last_step(self) -> int:
        """The last step that it finished, or that it resumed from."""
        return self.steps[-1] if self.steps else self.resumed or 0


class Trace:
    """Reads a trace that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lives: list[Life] = []
        self._offset = 0

    def read(self) -> list[Life]:
        """All lives, with what was added since the last call."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return self.lives
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))
        return self.lives

    def _take(self, entry: dict[str, object]) -> None:
        match entry:
            case {"event": "start", "pid": int(pid)}:
                self.lives.append(Life(pid))
            case {"event": "resumed", "step": int(step)}:
                self.lives[-1].resumed = step
            case {"event": "step", "step": int(step), "loss": str(loss), "samples": list(samples)}:
                life = self.lives[-1]
                life.steps.append(step)
                life.losses[step] = loss
                life.samples[step] = samples
            case {"event": "gate"}:
                self.lives[-1].is_at_gate = True
            case {"event": "final", "sha": str(sha)}:
                self.lives[-1].final = sha
            case _:
                raise ValueError(f"{self.path}: cannot read {entry}")
