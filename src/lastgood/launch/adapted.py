"""An application whose checkpoints we know: what an adapter says of it, under the contract of every start.

A start is fresh, resumed or refused. What was seen of its checkpoints is written to the journal, with a checksum of
each, and to the record outside the job's directory: these applications fall back from no damaged checkpoint by
themselves, and take flipped bytes for what they are.
"""

import errno
import fcntl
import os
import time

import msgspec
import xxhash

from lastgood.core.accounting import Record
from lastgood.core.errors import JobBusyError, LastgoodError, StartRefusedError
from lastgood.core.layout import Env
from lastgood.core.outcome import Ending, Evidence, Outcome, failure_below
from lastgood.core.quoting import shown
from lastgood.core.start import Candidate, StartKind, decide_start
from lastgood.launch.history import read_records
from lastgood.launch.known_before import earlier_attempts, expectations, since_new_start
from lastgood.launch.library import describe
from lastgood.launch.ports import Adapter, Conditions, Found, LastGood, Prepared, StopRequest, Told, Work
from lastgood.launch.time_limit import TimeLimit
from lastgood.store.attempts import Journal
from lastgood.store.durable import explain, explained
from lastgood.store.jobdir import JobDirectory
from lastgood.store.record import Records

_CHUNK_BYTES = 2**22
_SUMMED_BYTES = 2**32
"""No checksum is made of what is larger: the launcher attends to nothing else meanwhile."""
_SHOWN = 8


class AdaptedCommand:
    """Starts an application from the newest checkpoint that is whole, and tells from its files how far it has come."""

    def __init__(
        self,
        adapter: Adapter,
        job: JobDirectory,
        records: Records,
        restart_counts: dict[str, int],
        interval_s: float,
        time_limit: TimeLimit | None,
        grace_s: float,
        *,
        is_interval_given: bool = False,
    ) -> None:
        self._adapter = adapter
        self._job = job
        self._records = records
        self._restart_counts = restart_counts
        self._interval_s = interval_s
        self._time_limit = time_limit
        self._grace_s = grace_s
        self._is_interval_given = is_interval_given
        self._noted: LastGood | None = None
        self._total_steps: int | None = None
        self._began = 0.0
        self._lock_fd = -1

    def last_good(self) -> LastGood | None:
        """The newest that a quick look finds nothing wrong with."""
        found = self._newest()
        return None if found is None else _as_last_good(found)

    def _newest(self) -> Found | None:
        return next((found for found in self._adapter.candidates() if not found.problem), None)

    def prepare(self, attempt: int, *, is_fresh: bool, journal: Journal) -> Prepared:
        self._lock()
        with explained(
            "look for checkpoints in", os.path.dirname(self._adapter.lock_path()), safe="nothing was started"
        ):
            founds = self._look()
            before = since_new_start([r for r in read_records(self._job) if r.number < attempt])
            earlier = earlier_attempts(before)
            is_over = not is_fresh and self._is_over_without_checkpoint(before)
            signs = expectations(self._job, self._records, self._restart_counts)
        if is_over:
            done = "the results are there"
            step = max((e.last_saved_step or 0 for e in earlier), default=0)
            journal.write("started", step=step, reason=done, is_wrapped=True)
            return Prepared(done=done)
        usable = founds[-1] if founds and not founds[-1].problem else None
        bad = [found for found in founds if found.problem]
        is_saved = any(e.last_saved_step is not None for e in earlier) or any(e.step is not None for e in signs)
        start = decide_start(
            None if usable is None else Candidate(shown(usable.path), usable.step),
            [Candidate(shown(f.path), f.step, f.problem) for f in bad if is_saved or not f.may_be_cut_off],
            earlier,
            signs,
            is_fresh,
        )
        if start.kind is StartKind.REFUSED:
            raise StartRefusedError(
                f"will not start {self._adapter.name} from zero: {start.reason}",
                safe="nothing was changed",
                remedy="make its checkpoints visible again, or begin anew: `lastgood run --fresh`",
            )
        lines = [f"not used: {shown(found.path)}: {found.problem}" for found in bad]
        lines += [start.warning] if start.warning else []
        is_resumed = start.kind is StartKind.RESUMED
        with explained("put checkpoints aside in", os.path.dirname(self._adapter.lock_path())):
            # The application would take the newest, whatever is in it; and after --fresh an old one.
            unwanted = bad if is_resumed else self._adapter.candidates()
            aside = self._adapter.put_aside(unwanted, f"attempt-{attempt}")
            work = self._adapter.work() if is_resumed else None
        lines += [f"kept as {shown(path)}" for path in aside[:_SHOWN]]
        lines += [f"and {len(aside) - _SHOWN} more in the same way"] if len(aside) > _SHOWN else []
        journal.write(
            "started",
            how=start.kind.value,
            step=start.step,
            name=start.name,
            reason=start.reason,
            is_wrapped=True,
            rejected=[f"{found.path}: {found.problem}" for found in bad],
        )
        if work is not None and work.is_done:
            return Prepared(done=f"{_reached(work)}, and the results are there")
        self._total_steps = None if work is None else work.total
        self._began = time.time()
        order = self._adapter.order(usable if is_resumed else None, self._conditions())
        self._noted = _as_last_good(usable) if usable is not None and is_resumed else None
        lines += order.notes
        environment = dict(order.environment)
        if self._noted is None:
            head = f"fresh start: {start.reason}"
        else:
            head = f"resuming from {start.name} ({describe(self._noted)})"
            environment[Env.CHECKPOINT] = os.path.abspath(self._noted.name)
        return Prepared(command=order.command, environment=environment, message="\n".join([head, *lines]))

    def _is_over_without_checkpoint(self, before: list[Record]) -> bool:
        """Some delete their checkpoints at the end, or end before the first. Results from before they ran say nothing."""
        if self._newest() is not None or not any(record.is_launched for record in before):
            return False
        work = self._adapter.work()
        return work is not None and work.is_done

    def note_progress(self, journal: Journal) -> None:
        """Write down a checkpoint that is newer than the last one written down, with a checksum of its content."""
        try:
            found = self._newest()
            good = None if found is None else _as_last_good(found)
            if found is None or good is None or not good.is_newer_than(self._noted):
                return
            before = _modified_ns(found)
            digest = _digest(found) if found.size_bytes <= _SUMMED_BYTES else None
            if _modified_ns(found) != before:
                # It was replaced meanwhile: the next look has the newer one.
                return
        except (OSError, LastgoodError):
            return
        self._noted = good
        if (work := self._work()) is not None:
            self._total_steps = work.total
        journal.write(
            "committed",
            step=good.step,
            name=shown(good.name),
            bytes=good.size_bytes,
            modified_ns=before,
            xxh3=digest,
        )
        self._records.note_saved(self._job.path, self._job.id, good.step)

    def explain_no_progress(self) -> str:
        return ""

    def can_see_checkpoints(self, attempt: int) -> bool:
        return True

    def ask_to_stop(self, number: int) -> StopRequest:
        return self._adapter.ask_to_stop(number)

    def told(self, output: str) -> Told | None:
        """Its own words, and what it has saved."""
        good = self._noted
        try:
            step = self._adapter.reached(output, self._began)
        except (OSError, LastgoodError):
            step = None
        if good is not None:
            step = max(step or 0, good.step)
        if step is None:
            return None
        return Told(step, self._total_steps, good.step if good else None, good.at if good else None)

    def judge(self, evidence: Evidence) -> Ending | None:
        """An exit code proves nothing here: 0 can be a stop in the middle, 1 a stop that was asked for."""
        if evidence.hang or evidence.oom_kills:
            return None
        work = self._work()
        if work is not None and work.is_done:
            return Ending(Outcome.FINISHED, _reached(work))
        if evidence.interruption or evidence.stop_cause:
            return None
        if (ending := self._explain(evidence)) is not None:
            below = failure_below(evidence, ending.reason) if ending.outcome is Outcome.PROGRAM_ERROR else None
            return below or ending
        if evidence.exit_code == 0 and work is not None and work.total is not None:
            return Ending(
                Outcome.PROGRAM_ERROR,
                f"exit code 0 at step {work.done} of {work.total}: the work is not done, and nothing says why it ended",
                1,
            )
        return None

    def _explain(self, evidence: Evidence) -> Ending | None:
        try:
            return self._adapter.explain_end(evidence)
        except (OSError, LastgoodError):
            return None

    def _work(self) -> Work | None:
        try:
            return self._adapter.work()
        except (OSError, LastgoodError):
            return None

    def _look(self) -> list[Found]:
        """The newest first, up to the first that is whole."""
        known = self._known_digests()
        founds = []
        for found in self._adapter.candidates():
            problem = found.problem or self._changed(found, known) or self._adapter.problem_of(found)
            founds.append(msgspec.structs.replace(found, problem=problem))
            if not problem:
                break
        return founds

    def _changed(self, found: Found, known: dict[tuple[str, int], str]) -> str:
        """Applications do not notice flipped bytes; where we have seen this version of the file, we do."""
        digest = known.get((shown(found.path), _modified_ns(found)))
        return "" if digest in (None, _digest(found)) else "its bytes are not those that were written (checksum)"

    def _known_digests(self) -> dict[tuple[str, int], str]:
        return {
            (str(event.data.get("name")), event.data["modified_ns"]): str(event.data["xxh3"])
            for record in read_records(self._job)
            for event in record.events
            if event.kind == "committed" and isinstance(event.data.get("modified_ns"), int) and event.data.get("xxh3")
        }

    def _conditions(self) -> Conditions:
        limit = self._time_limit
        left_s = None if limit is None else max(limit.left_s() - self._grace_s, 0.0)
        return Conditions(self._interval_s, left_s, self._is_interval_given)

    def _lock(self) -> None:
        """For as long as the launcher lives. Raises JobBusyError."""
        if self._lock_fd >= 0:
            return
        path = self._adapter.lock_path()
        with explained("lock", path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                self._lock_fd = fd
                return
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise JobBusyError(
                    f"another launcher runs {self._adapter.name} in {shown(os.path.dirname(os.path.abspath(path)))}",
                    safe="nothing was changed",
                    remedy="wait for it or end it: two of them would spoil each other's files",
                ) from error
            raise explain(error, "lock", path) from error
        self._lock_fd = fd


def _as_last_good(found: Found) -> LastGood:
    key = (float(found.step), found.at)
    return LastGood(found.path, found.step, found.at, key, found.size_bytes, tells_its_end=found.tells_its_end)


def _reached(work: Work) -> str:
    """Not all work has a last step: some ends when it has converged."""
    of = "" if work.total is None else f" of {work.total}"
    return f"step {work.done}{of} is reached"


def _files(found: Found) -> list[str]:
    """All files that a checkpoint has, in an order of names, so that it is the same at each look. Raises OSError."""
    waiting = list(reversed(found.parts or (found.path,)))
    files = []
    while waiting:
        path = waiting.pop()
        if os.path.isdir(path):
            waiting += sorted((os.path.join(path, name) for name in os.listdir(path)), reverse=True)
        else:
            files.append(path)
    return files


def _modified_ns(found: Found) -> int:
    """Of the file that was written last. Raises OSError."""
    return max((os.stat(path).st_mtime_ns for path in [*_files(found), *found.parts, found.path]), default=0)


def _digest(found: Found) -> str:
    """Of the content of all its files and, where it has several, of their names. Raises OSError."""
    state = xxhash.xxh3_128()
    for path in _files(found):
        if path != found.path:
            state.update(os.fsencode(path) + b"\0")
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                state.update(chunk)
    return state.hexdigest()
