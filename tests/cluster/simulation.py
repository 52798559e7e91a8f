"""A simulation as a batch job of `lastgood submit`, and whether it ends with the bytes of an undisturbed one."""

import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from lastgood.store.attempts import read_events
from lastgood.store.jobdir import open_job

from .machine import wait_until
from .slurm import SlurmCluster

MDRUN = ("gmx", "mdrun", "-ntmpi", "1", "-ntomp", "1", "-reprod")
RESULTS = ("confout.gro", "ener.edr", "traj.trr", "traj_comp.xtc")
LIMIT_S = 200.0


def cpu_of_children() -> float:
    """Seconds, of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Simulation:
    """One GROMACS simulation in a directory of its own, which all nodes see."""

    options: tuple[str, ...] = ("--app", "gromacs", "--save-every", "500ms")
    alone: tuple[str, ...] = MDRUN
    input_name = "topol.tpr"
    saved = "state.cpt"
    """There when something can be gone on from."""
    results: tuple[str, ...] = RESULTS
    programs: tuple[str, ...] = ("gmx", "gmx_mpi")

    def __init__(self, cluster: SlurmCluster, directory: Path, run_input: Path, *command: str) -> None:
        self.cluster = cluster
        self.directory = directory
        self.command = command or self.alone
        self.job = directory / "job"
        self.id = 0
        directory.mkdir(parents=True)
        shutil.copy(run_input, directory / self.input_name)

    def submit(self, *options: str) -> int:
        """Options of `lastgood submit`, and of sbatch; the number of the (first) job."""
        words = ["submit", "--job", "job", *self.options, *options, "--", *self.command]
        environment = {**self.cluster.environment, "LASTGOOD_STATE_DIR": str(self.directory / "state")}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        said = subprocess.run(
            [sys.executable, "-m", "lastgood", *words],
            cwd=self.directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        self.id = int(re.findall(r"jobs? (\d+)", said.stdout.splitlines()[0])[0])
        return self.id

    # What is seen of it

    def text(self) -> str:
        """The output of all batch jobs that have worked on it."""
        paths = sorted(self.job.glob("slurm-*.out"))
        return "\n".join(path.read_text(errors="replace") for path in paths)

    def events(self, attempt: int, kind: str) -> list[dict[str, Any]]:
        return [event.data for event in read_events(open_job(self.job), attempt) if event.kind == kind]

    def outcomes(self) -> list[str]:
        count = len(list((self.job / "attempts").glob("*[0-9].json")))
        ends = [self.events(n, "ended") for n in range(1, count + 1)]
        return [end[-1]["outcome"] if end else "" for end in ends]

    def resumed_at(self, attempt: int) -> int:
        """The step from which an attempt went on; 0 for a fresh start."""
        return int(self.events(attempt, "started")[-1]["step"])

    def processes(self, *names: str) -> list[psutil.Process]:
        """Those that compute, on whichever node."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.name() in (names or self.programs) and process.cwd() == str(self.directory):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def wait_checkpoints(self) -> None:
        """Until there is something to go on from."""
        self._wait((self.directory / self.saved).exists, f"{self.saved} is there")

    def wait_text(self, text: str) -> None:
        self._wait(lambda: text in self.text(), text)

    def _wait(self, true: Callable[[], object], what: str) -> None:
        wait_until(true, what, LIMIT_S, lambda: self.text()[-6000:])

    def check_done(self, undisturbed: Path, job_id: int | None = None) -> None:
        """Slurm says that it has ended well, and its results are those of an undisturbed run."""
        state = self.cluster.wait_ended(job_id or self.id, limit_s=LIMIT_S)
        assert state == "COMPLETED", f"{state}\n{self.text()}"
        self.check_results(undisturbed)

    def check_results(self, undisturbed: Path) -> None:
        for name in self.results:
            assert (self.directory / name).read_bytes() == (undisturbed / name).read_bytes(), f"{name}\n{self.text()}"
        assert self.outcomes()[-1] == "finished"
