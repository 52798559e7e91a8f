"""How a job that was killed is started again."""

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).parent


@dataclass(frozen=True)
class Way:
    title: str
    script: str
    prefix: tuple[str, ...] = ()
    """The command that supervises; `{store}` stands for the job's directory."""
    is_looped: bool = False
    """A shell starts it again for as long as it fails."""

    def command(self, store: Path) -> list[str]:
        script = [sys.executable, str(JOBS / self.script)]
        if self.is_looped:
            return ["bash", "-c", f"until {shlex.join(script)}; do :; done"]
        prefix = [word.format(store=store) for word in self.prefix]
        # torchrun takes a script, and starts the interpreter itself.
        return [*prefix, *(script[-1:] if "torch.distributed.run" in prefix else script)]

    def obstacle(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        if "--standby" not in self.prefix:
            return ""
        done = subprocess.run([*_LASTGOOD, "run", "--help"], capture_output=True, text=True, check=False)
        return "" if "--standby" in done.stdout else "this version has no --standby"


_LASTGOOD = (sys.executable, "-m", "lastgood")
_RUN = (*_LASTGOOD, "run", "--job", "{store}")

WAYS = {
    "standby": Way("lastgood run --standby", "lastgood_job.py", (*_RUN, "--standby", "--")),
    "run": Way("lastgood run", "lastgood_job.py", (*_RUN, "--")),
    "lastgood-loop": Way("lastgood.Run, a shell loop", "lastgood_job.py", is_looped=True),
    "bare": Way("torch.save, a shell loop", "torch_job.py", is_looped=True),
    "torchrun-dcp": Way(
        "torchrun + DCP",
        "dcp_job.py",
        (sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "3"),
    ),
}
