"""A command that knows nothing of us, but can resume from checkpoints of its own.

Its start follows the same contract as a program's that uses the library: fresh, resumed or refused. What the
launcher has seen of its checkpoints is written to the journal and to the record outside the job's directory,
so that an emptied directory is noticed at the next start.
"""

import os
import shlex

import msgspec

from lastgood.core.errors import LastgoodError, StartRefusedError, UsageError
from lastgood.core.layout import Env
from lastgood.core.numbering import Named, free_numbers_in, kind_of, newest_first, step_in
from lastgood.core.outcome import Ending, Evidence
from lastgood.core.quoting import shown
from lastgood.core.start import Candidate, StartKind, decide_start
from lastgood.launch.findings import Match, find, split_pattern
from lastgood.launch.history import read_records
from lastgood.launch.known_before import earlier_attempts, expectations
from lastgood.launch.library import describe
from lastgood.launch.ports import LastGood, Prepared, StopRequest, Told
from lastgood.launch.siblings import incompleteness, version_of
from lastgood.launch.soundness import problem_of_directory, problem_of_file
from lastgood.store.attempts import Journal
from lastgood.store.durable import explain
from lastgood.store.jobdir import JobDirectory
from lastgood.store.record import Records

PLACEHOLDER = "{checkpoint}"


class Wrapping(msgspec.Struct, frozen=True):
    """How to find a command's checkpoints and how to pass one to it. Made by `parse_wrapping`."""

    pattern: str
    words: list[str]
    """To be added to the command, PLACEHOLDER standing for the path."""


def parse_wrapping(pattern: str | None, template: str | None) -> Wrapping | None:
    """From --checkpoints and --resume-arg, the latter split as a shell would; None if neither is given.

    Raises UsageError.
    """
    if pattern is None:
        if template is None:
            return None
        raise UsageError(
            "--resume-arg without --checkpoints: where are the checkpoints?",
            remedy="add a pattern, such as --checkpoints 'out/*.pt'",
        )
    split_pattern(pattern)
    if template is None:
        return Wrapping(pattern, [])
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"--resume-arg {template!r}: {error}", remedy="balance its quotes") from error
    if not any(PLACEHOLDER in word for word in words):
        raise UsageError(
            f"--resume-arg {template!r} does not say where the checkpoint goes",
            remedy=f"write {PLACEHOLDER} for its path, such as '--resume-from {PLACEHOLDER}'",
        )
    return Wrapping(pattern, words)


class _Seen(msgspec.Struct, frozen=True):
    """Which checkpoints there are: what can be used, newest first, and what cannot."""

    usable: Match | None
    unusable: list[Candidate]
    kinds: list[str]


class WrappedCommand:
    """Finds the newest whole checkpoint of a command, and passes it on."""

    def __init__(self, job: JobDirectory, records: Records, wrapping: Wrapping, restart_counts: dict[str, int]) -> None:
        self._job = job
        self._records = records
        self._pattern = wrapping.pattern
        self._open_pattern = "/".join(split_pattern(wrapping.pattern)[1])
        self._words = wrapping.words
        self._restart_counts = restart_counts
        self._problems: dict[tuple[object, ...], str] = {}
        self._set_aside: set[tuple[str, int]] | None = None
        self._noted: LastGood | None = None

    def last_good(self) -> LastGood | None:
        usable = self._look().usable
        return None if usable is None else self._as_last_good(usable)

    def prepare(self, attempt: int, *, is_fresh: bool, journal: Journal) -> Prepared:
        try:
            if is_fresh:
                # What is there now belongs to the past; only what is written from here on counts.
                self._set_aside = {_version(match) for match in find(self._pattern)}
                journal.write("set_aside", files=sorted(self._set_aside))
            seen = self._look()
            records = read_records(self._job)
        except OSError as error:
            raise explain(
                error, "look for checkpoints in", error.filename or self._pattern, safe="the command was not started"
            ) from error
        earlier = earlier_attempts([r for r in records if r.number < attempt])
        usable = None if seen.usable is None else Candidate(seen.usable.path, step_in(seen.usable.open_part))
        start = decide_start(
            usable, seen.unusable, earlier, expectations(self._job, self._records, self._restart_counts), is_fresh
        )
        if start.kind is StartKind.REFUSED:
            raise StartRefusedError(
                f"will not start the command from zero: {start.reason}",
                safe="nothing was changed",
                remedy=f"make the checkpoints of --checkpoints {shown(self._pattern)} visible again, "
                "or begin anew: `lastgood run --fresh`, or lastgood.Run(..., fresh=True) once",
            )
        journal.write(
            "started",
            how=start.kind.value,
            step=start.step,
            name=shown(start.name) if start.name else "",
            reason=start.reason,
            is_wrapped=True,
            rejected=[f"{c.name}: {c.problem}" for c in seen.unusable],
        )
        if seen.usable is None:
            hint = self.explain_no_progress()
            return Prepared(message=f"fresh start: {start.reason}" + (f"; {hint}" if hint else ""))
        self._noted = self._as_last_good(seen.usable)
        return self._resumed(seen, start.warning)

    def _resumed(self, seen: _Seen, warning: str) -> Prepared:
        assert seen.usable is not None
        path = seen.usable.path
        if path.startswith("-"):
            # It must not be taken for an option.
            path = f"./{path}"
        lines = [f"resuming from {shown(path)} ({describe(self._as_last_good(seen.usable))})"]
        lines += [f"not used: {c.name}: {c.problem}" for c in seen.unusable]
        if len(seen.kinds) > 1:
            lines.append(f"the pattern matches {len(seen.kinds)} kinds of names: {', '.join(map(shown, seen.kinds))}")
        if warning:
            lines.append(warning)
        arguments = [word.replace(PLACEHOLDER, path) for word in self._words]
        return Prepared(arguments, {Env.CHECKPOINT: os.path.abspath(path)}, "\n".join(lines))

    def note_progress(self, journal: Journal) -> None:
        """Write down a checkpoint that is newer than the last one written down.

        Called while signals wait, so that it looks quickly; the content is checked before it is used.
        """
        try:
            usable = self._look(is_quick=True).usable
        except (OSError, LastgoodError):
            return
        good = None if usable is None else self._as_last_good(usable)
        if good is None or not good.is_newer_than(self._noted):
            return
        self._noted = good
        journal.write("committed", step=good.step, name=shown(good.name), bytes=good.size_bytes)
        self._records.note_saved(self._job.path, self._job.id, good.step)

    def explain_no_progress(self) -> str:
        """A typo in the pattern looks like a command that never saves."""
        try:
            if find(self._pattern):
                return ""
        except OSError:
            return ""
        base, _ = split_pattern(self._pattern)
        where = "" if not base or os.path.isdir(base) else f" (no directory {shown(base)})"
        return f"nothing matches --checkpoints {shown(self._pattern)}{where}"

    def can_see_checkpoints(self, attempt: int) -> bool:
        return True

    def ask_to_stop(self, number: int) -> StopRequest:
        return StopRequest(number)

    def told(self, output: str) -> Told | None:
        """Nobody knows what its words mean."""
        return None

    def judge(self, evidence: Evidence) -> Ending | None:
        return None

    def _as_last_good(self, match: Match) -> LastGood:
        """Of names with numbers only a higher one is newer: a command that begins from zero each time
        writes the same names anew, and gets nowhere. Others are written anew by intention."""
        step = step_in(match.open_part)
        numbers = free_numbers_in(match.open_part, self._open_pattern)
        key = tuple(map(float, numbers)) if numbers else (match.modified,)
        return LastGood(match.path, step, match.modified, key, match.size, kind_of(match.open_part))

    def _look(self, *, is_quick: bool = False) -> _Seen:
        """Find and check, newest first, until one is whole. Raises OSError."""
        aside = self._aside()
        matches = {m.open_part: m for m in find(self._pattern) if _version(m) not in aside}
        ordered = [matches[n.name] for n in newest_first([Named(m.open_part, m.modified) for m in matches.values()])]
        unusable: list[Candidate] = []
        for match in ordered:
            problem = self._problem(match, ordered, is_quick=is_quick)
            if not problem:
                return _Seen(match, unusable, sorted({kind_of(m.open_part) for m in ordered}))
            unusable.append(Candidate(shown(match.path), step_in(match.open_part), problem))
        return _Seen(None, unusable, [])

    def _problem(self, match: Match, all_of_them: list[Match], *, is_quick: bool) -> str:
        """Why a checkpoint cannot be used. Each version of a file or a directory is read once."""
        key = (is_quick, *version_of(match))
        if key not in self._problems:
            check = problem_of_directory if match.is_directory else problem_of_file
            self._problems[key] = check(match.path, is_quick=is_quick)
        problem = self._problems[key]
        return problem or (incompleteness(match, all_of_them) if match.is_directory else "")

    def _aside(self) -> set[tuple[str, int]]:
        if self._set_aside is None:
            found: set[tuple[str, int]] = set()
            for record in read_records(self._job):
                if record.is_fresh and (event := record.first("set_aside")) is not None:
                    found = {(str(path), int(at)) for path, at in event.data.get("files", [])}
            self._set_aside = found
        return self._set_aside


def _version(match: Match) -> tuple[str, int]:
    """Tells a file from one that is written later under the same name. Fit for a journal."""
    return (shown(os.path.abspath(match.path)), match.modified_ns)
