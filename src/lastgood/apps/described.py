"""Any application, by a description of it: see `description` for what may stand in one."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import xxhash

from lastgood.apps.described_checks import full_problem, quick_problem, tells_its_end
from lastgood.apps.described_order import Plan, carry_out, plan_start
from lastgood.apps.described_values import NotGivenError, Values, read_text
from lastgood.apps.description import read_description
from lastgood.apps.description_tables import Description, Finished
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.numbering import Named, newest_first, step_in
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.core.quoting import shown
from lastgood.core.signals import SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2
from lastgood.launch.findings import Match, find, split_pattern
from lastgood.launch.ports import Conditions, Found, Order, StopRequest, Work
from lastgood.launch.siblings import version_of
from lastgood.store import durable

_SIGQUIT = 3
_SIGNALS = {"TERM": SIGTERM, "INT": SIGINT, "HUP": SIGHUP, "QUIT": _SIGQUIT, "USR1": SIGUSR1, "USR2": SIGUSR2}
_ASIDE_PREFIX = "aside-"
_ASIDE = re.compile(rf"(?:^|/){_ASIDE_PREFIX}[^/]*\.attempt-\d+(?:-\d+)?$")
"""How those are named that were put aside. Programs know their own by the begin or by the end of the name: the Trainer of
transformers would count checkpoint-500.attempt-2 among those that it keeps."""


class _Looked(msgspec.Struct, frozen=True):
    problem: str
    step: int | None
    version: tuple[object, ...]
    tells_its_end: bool


class Described:
    """The run of one command, in the directory that the launcher is in."""

    def __init__(self, description: Description, command: Sequence[str]) -> None:
        """Raises UsageError where the command is not one of this application, or does not give what is needed."""
        self.name = description.name
        self._given = description
        self._command = list(command)
        names = {os.path.basename(word) for word in command}
        if description.programs and not names & set(description.programs):
            raise UsageError(
                f"{self.name}: the command runs no {' or '.join(description.programs)}",
                safe="nothing was started",
                remedy=f"give the command behind --, with {description.programs[0]} in it",
            )
        self._values = Values(description.values, command, self.name)
        self._globs = [self._values.fill(pattern, is_glob=True) for pattern in description.checkpoints.glob]
        for pattern in self._globs:
            split_pattern(pattern)
        self._refuse()
        source = description.checkpoints.step
        self._is_step_inside = source is None or (source.file.startswith("{checkpoint}") and source.default is None)
        places = "\0".join(os.path.abspath(pattern) for pattern in self._globs)
        self._own = f".lastgood-{xxhash.xxh3_64_hexdigest(os.fsencode(places))[:8]}"
        self._looked: dict[str, _Looked] = {}
        self._past: set[tuple[str, int]] | None = None

    def lock_path(self) -> str:
        return f"{self._own}.lock"

    def candidates(self) -> list[Found]:
        matches = self._matches()
        founds = [self._found(match, list(matches.values())) for match in matches.values()]
        order = self._given.checkpoints.order
        if order == "number":
            by_name = dict(zip(matches, founds, strict=True))
            named = newest_first([Named(name, match.modified) for name, match in matches.items()])
            return [by_name[each.name] for each in named]
        return sorted(founds, key=lambda f: (f.step, f.at) if order == "step" else (f.at, f.step), reverse=True)

    def problem_of(self, found: Found) -> str:
        match = next((match for match in self._matches().values() if match.path == found.path), None)
        if match is None:
            return "it has vanished"
        return full_problem(self._given.check, match, self._values, self._words(found, self._total(found)))

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        plan = self.plan(found, conditions)
        if found is None:
            self._begin_anew()
        return carry_out(plan)

    def plan(self, found: Found | None, conditions: Conditions) -> Plan:
        """What `order` would do. Changes nothing."""
        given = {**self._words(found, self._total(found)), "interval_s": f"{conditions.interval_s:g}"}
        return plan_start(self._given.start, self._command, self._values, given, is_resumed=found is not None)

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        return [durable.put_aside(found.path, why, prefix=_ASIDE_PREFIX) for found in founds]

    def ask_to_stop(self, number: int) -> StopRequest:
        if number == SIGUSR2:
            return self._ask_to_save()
        stop = self._given.stop
        if stop.wait:
            return StopRequest(None, is_ended_at_save=True)
        if stop.signal:
            return StopRequest(_SIGNALS[stop.signal], tuple(stop.processes), is_exact=True)
        try:
            durable.write_shared_file(Path(self._values.fill(stop.file)), b"")
        except (OSError, LastgoodError):
            # It cannot be asked; what it has saved is all there is.
            return StopRequest(SIGTERM)
        return StopRequest(None)

    def _ask_to_save(self) -> StopRequest:
        save = self._given.save
        if save is not None and save.signal:
            return StopRequest(_SIGNALS[save.signal], tuple(save.processes))
        if save is None:
            return StopRequest(None, refusal=f"the description of {self.name} has no [save]")
        try:
            durable.write_shared_file(Path(self._values.fill(save.file)), b"")
        except (OSError, LastgoodError) as error:
            return StopRequest(None, refusal=f"{shown(self._values.fill(save.file))} cannot be written: {error}")
        return StopRequest(None)

    def reached(self, output: str, since: float) -> int | None:
        """The first group of the pattern, in the last whole line that it matches."""
        if self._given.progress is None:
            return None
        pattern = self._given.progress.output
        found = list(re.finditer(pattern, output[: output.rfind("\n") + 1], re.MULTILINE))
        digits = found[-1][1] if found else ""
        return int(digits) if digits and digits.isdecimal() else None

    def stop_in_words(self) -> str:
        """How it is asked to save and stop, for a person."""
        stop = self._given.stop
        if stop.wait:
            return "it cannot be asked: it is ended at its next checkpoint, or when the grace time is over"
        only = f" to {', '.join(stop.processes)}" if stop.processes else ""
        return f"the file {shown(self._values.fill(stop.file))} is written" if stop.file else f"SIG{stop.signal}{only}"

    def work(self) -> Work | None:
        newest = self._newest()
        total = self._total(newest)
        is_done = any(self._holds(test, newest, total) for test in self._given.finished if not test.output)
        if newest is None and not is_done:
            return None
        return Work(0 if newest is None else newest.step, total, is_done)

    def explain_end(self, evidence: Evidence) -> Ending | None:
        for line in self._given.log:
            if match := re.search(line.pattern, evidence.log_tail, re.MULTILINE):
                said = line.reason or f"its output says: {_line_at(evidence.log_tail, match)}"
                return Ending(Outcome(line.outcome), said, evidence.exit_code or None)
        if evidence.exit_code != 0:
            return None
        newest = self._newest()
        for test in self._given.finished:
            is_said = test.output and re.search(test.output, evidence.log_tail, re.MULTILINE)
            if is_said and self._holds(test, newest, self._total(newest)):
                return Ending(Outcome.FINISHED, f"exit code 0, and its output has {test.output!r}")
        where = "" if newest is None else f" at step {newest.step}"
        return Ending(Outcome.PROGRAM_ERROR, f"exit code 0{where}, but no finished test of the description holds", 1)

    def _newest(self) -> Found | None:
        return next((found for found in self.candidates() if not found.problem), None)

    def _total(self, newest: Found | None) -> int | None:
        total = self._given.checkpoints.total
        if total is None:
            return None
        try:
            return self._values.number_of(total, {} if newest is None else {"checkpoint": newest.path})
        except NotGivenError:
            return None

    def _holds(self, test: Finished, newest: Found | None, total: int | None) -> bool:
        if test.step and (newest is None or total is None or newest.step < total):
            return False
        given = self._words(newest, total)
        try:
            paths = [self._values.fill(template, given) for template in (test.exists, test.file) if template]
        except NotGivenError:
            return False
        if any(not os.path.lexists(path) or _version(path) in self._of_the_past() for path in paths):
            return False
        return not test.file or re.search(test.pattern, read_text(paths[-1]) or "", re.MULTILINE) is not None

    def _refuse(self) -> None:
        for refused in self._given.refuse:
            path = self._values.fill(refused.file)
            if re.search(refused.pattern, read_text(path) or ""):
                raise UsageError(
                    f"{self.name} cannot be continued with {shown(path)}: {refused.reason}", safe="nothing was started"
                )

    def _matches(self) -> dict[str, Match]:
        """By the names that are compared: what one pattern leaves open; of several patterns, the paths."""
        found = {match.path: match for pattern in self._globs for match in find(pattern)}
        matches = [match for match in found.values() if not _ASIDE.search(match.path)]
        return {match.open_part if len(self._globs) == 1 else match.path: match for match in matches}

    def _found(self, match: Match, all_of_them: list[Match]) -> Found:
        version = version_of(match)
        looked = self._looked.get(match.path)
        if looked is None or looked.version != version or looked.problem or not self._is_step_inside:
            # What the others have decides too, so that a problem may pass.
            check = self._given.check
            problem = quick_problem(check, match, all_of_them)
            looked = _Looked(problem, self._step_of(match), version, tells_its_end(check, match))
            self._looked[match.path] = looked
        problem = looked.problem
        if not problem and looked.step is None:
            problem = "its step is not to be found"
        parts = [part for part in version[1:] if isinstance(part, tuple)]
        return Found(
            match.path,
            step_in(match.open_part) if looked.step is None else looked.step,
            max([part[1] for part in parts], default=match.modified_ns) / 1e9,
            sum(part[2] for part in parts) if match.is_directory else match.size,
            problem=problem,
            may_be_cut_off=True,
            tells_its_end=looked.tells_its_end,
        )

    def _step_of(self, match: Match) -> int | None:
        source = self._given.checkpoints.step
        if source is None:
            return step_in(match.open_part)
        try:
            return self._values.number_of(source, {"checkpoint": match.path})
        except UsageError:
            # A file of a checkpoint that is not whole.
            return None

    def _words(self, found: Found | None, total: int | None) -> dict[str, str]:
        words = {} if total is None else {"total": str(total)}
        if found is not None:
            # It must not be taken for an option.
            words["checkpoint"] = f"./{found.path}" if found.path.startswith("-") else found.path
            words["step"] = str(found.step)
            if total is not None:
                words["remaining"] = str(max(total - found.step, 0))
        return words

    def _begin_anew(self) -> None:
        """Results that are there now are those of an earlier run: they do not prove that this one is finished."""
        given = self._words(None, self._total(None))
        self._past = set()
        for template in (t for test in self._given.finished for t in (test.exists, test.file) if t):
            with suppress(NotGivenError):
                result = self._values.fill(template, given)
                self._past |= {_version(result)} if os.path.lexists(result) else set()
        path = Path(f"{self._own}.json")
        if self._past:
            durable.write_shared_file(path, json.dumps(sorted(self._past)).encode())
        else:
            durable.delete_file(path)

    def _of_the_past(self) -> set[tuple[str, int]]:
        if self._past is None:
            try:
                self._past = {(str(path), int(at)) for path, at in json.loads(read_text(f"{self._own}.json") or "[]")}
            except (ValueError, TypeError):
                self._past = set()
        return self._past


def adapter_from(path: str, command: Sequence[str]) -> Described:
    """Raises UsageError."""
    return Described(read_description(path), command)


def _version(path: str) -> tuple[str, int]:
    return (path, os.lstat(path).st_mtime_ns)


def _line_at(text: str, match: "re.Match[str]") -> str:
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[begin : end if end >= 0 else None].strip()[:200]
