"""Any program on one node, written down as a whole by CRIU: for programs that save nothing themselves."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lastgood.apps import criu_images as images
from lastgood.apps.transparent import limits_of
from lastgood.apps.transparent_machine import look
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.core.quoting import shown
from lastgood.core.signals import SIGTERM, SIGUSR2
from lastgood.launch.ports import Conditions, Found, Order, StopRequest, Work
from lastgood.store import durable

_NEEDED = "CRIU"


class Criu:
    """One command, in the directory that the launcher is in."""

    name = "criu"

    def __init__(self, command: Sequence[str]) -> None:
        """Raises UsageError where CRIU cannot write down processes of this machine."""
        limits = limits_of(look(command), command)
        unmet = [f"{x.limit}: {x.looked_at}" for x in limits if x.mechanism == _NEEDED and x.state != "met"]
        if unmet:
            raise UsageError(
                f"criu cannot save this command here: {'; '.join(unmet)}",
                safe="nothing was started",
                remedy="`lastgood app transparent --check -- COMMAND` lists what is possible on this machine",
            )
        self._command = list(command)
        self._directory = Path(images.DIRECTORY)

    def lock_path(self) -> str:
        return ".lastgood-criu.lock"

    def candidates(self) -> list[Found]:
        return [self._found(path) for path in images.image_paths(self._directory)]

    def problem_of(self, found: Found) -> str:
        return images.problem_of(Path(found.path), self._command)

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        self._directory.mkdir(exist_ok=True)
        for name in (images.STOP, images.SAVE, *([] if found else [images.FINISHED])):
            durable.delete_file(self._directory / name)
        restore = [] if found is None else ["--restore", found.path]
        words = [sys.executable, "-m", "lastgood.apps.criu_program", "--every", f"{conditions.interval_s:g}", *restore]
        return Order([*words, "--", *self._command])

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        return [durable.put_aside(found.path, why) for found in founds]

    def ask_to_stop(self, number: int) -> StopRequest:
        # A signal would reach the program, too, which has not asked for any.
        name = images.SAVE if number == SIGUSR2 else images.STOP
        try:
            durable.write_shared_file(self._directory / name, b"")
        except (OSError, LastgoodError) as error:
            if number == SIGUSR2:
                return StopRequest(None, refusal=f"{shown(str(self._directory / name))} cannot be written: {error}")
            # To what keeps the command, which then tries once to write it down, and ends it.
            return StopRequest(SIGTERM, (images.KEEPER,))
        return StopRequest(None)

    def reached(self, output: str, since: float) -> int | None:
        """What it counts is seconds, which its words say nothing of."""
        return None

    def work(self) -> Work | None:
        newest = next((found for found in self.candidates() if not found.problem), None)
        is_done = (self._directory / images.FINISHED).exists()
        if newest is None and not is_done:
            return None
        return Work(0 if newest is None else newest.step, None, is_done)

    def explain_end(self, evidence: Evidence) -> Ending | None:
        return Ending(Outcome.FINISHED, "exit code 0") if evidence.exit_code == 0 else None

    def _found(self, path: Path) -> Found:
        problem, size, at = images.problem_of(path, self._command), 0, 0.0
        with suppress(OSError, msgspec.DecodeError):
            state = images.read_state(path)
            size, at = sum(state.images.values()), (path / images.STATE).stat().st_mtime
        seconds = int(path.name)
        return Found(str(path), seconds, at, size, problem=problem, detail=f"after {seconds} s of work")
