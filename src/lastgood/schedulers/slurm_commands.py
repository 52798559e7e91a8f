"""Slurm's commands, run with a limit: questions, submission, requeue, update, cancellation.

While slurmctld is away a call is tried again until its limit. Whether it is away, or has refused, is told by what
the command prints, because all of them end with code 1 for both.

Do not call this in another thread while a launcher watches a command in the main one: that one takes every child
that has ended, also these.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from lastgood.core.errors import NoSuchJobError, SchedulerError
from lastgood.core.layout import Env
from lastgood.core.units import duration
from lastgood.schedulers.slurm_text import fields, parse_config, parse_table, records, value_of

QUESTION_S = 5.0
"""For what can be asked again later. slurmctld answers in milliseconds, and in seconds under load."""
MUST_S = 60.0
"""For what must get through: slurmctld restarts within it."""
HISTORY_S = 10.0
"""Databases answer slowly."""

_ONE_TRY_S = 30.0
_PAUSE_S = 0.5
_MOST_PAUSE_S = 5.0

_AWAY = (
    "unable to contact slurm controller",
    "unable to contact the controller",
    "connection refused",
    "connection timed out",
    "connection reset",
    "communication connection failure",
    "communication shutdown failure",
    "communications connection failure",
    "no route to host",
    "name or service not known",
    "backup controller in standby",
    "controller not responding",
    "temporarily unavailable",
    "try again",
    "too many open files",
    "protocol authentication error",
)
"""Nothing has been asked of slurmctld: safe to try again."""
_UNCLEAR = (
    "socket timed out",
    "zero bytes were transmitted",
    "unexpected message received",
    "transport endpoint",
    "message receive failure",
    "message send failure",
    "broken pipe",
)
"""slurmctld may have heard it, although we did not hear its answer."""
_NO_SUCH_JOB = ("invalid job id",)

_OF_AN_ATTEMPT = (Env.ATTEMPT, Env.LAUNCH, Env.LAUNCHER_PID, Env.HEARTBEATS, Env.DEADLINE, Env.FRESH, Env.EXPECT_STEP)
_KEPT_FROM_SLURM = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER")

_HISTORY_FIELDS = (
    *("JobID", "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "ElapsedRaw"),
    *("NodeList", "AllocTRES", "Partition", "Restarts", "Reason", "Timelimit"),
)


class Answer(msgspec.Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it says about its failure, on one line."""
        return "; ".join(line.strip() for line in (self.err or self.out).splitlines() if line.strip())


Runner = Callable[[Sequence[str], Mapping[str, str], float], Answer]
"""Runs a command with an environment and a limit in seconds. Raises OSError, subprocess.TimeoutExpired."""


def run_command(words: Sequence[str], environment: Mapping[str, str], limit_s: float) -> Answer:
    """SIGTERM that Slurm sends to all processes of the job does not reach the command: it would be ended in the middle of
    its question, and nobody would know whether a requeue has been taken."""
    # A new process begins with the mask of its parent, and these programs do not change it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        process = subprocess.Popen(
            words,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Nor does what is sent to the group of the batch script.
            start_new_session=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except BaseException:
            process.kill()
            raise
    return Answer(process.returncode, out, err)


class SlurmCommands:
    """Slurm as one environment sees it. Methods raise SchedulerError, with Slurm's own words in it.

    `limit_s` of a method is the time that it takes at most, with all tries while slurmctld is away.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        run: Runner = run_command,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        # Times as seconds since 1970: what is printed has no time zone.
        self._environment = {**environment, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        self._for_jobs = environment_for_jobs(environment)
        self._run = run
        self._clock = clock
        self._sleep = sleep
        self._has_sbatch = False

    def show_job(self, job_id: str, *, limit_s: float = QUESTION_S) -> dict[str, str]:
        """The fields of a job ("7") or of one task of an array ("7_2").

        Raises NoSuchJobError also for a job that has ended a while ago: slurmctld forgets those (MinJobAge).
        """
        found = records(self._ask(["scontrol", "-o", "show", "job", job_id], f"look up job {job_id}", limit_s))
        for record in found:
            names = (record.get("JobId", ""), f"{record.get('ArrayJobId')}_{record.get('ArrayTaskId')}")
            if job_id in names:
                return record
        if not found or "JobId" not in found[0]:
            raise SchedulerError(f"scontrol shows nothing of job {job_id}")
        return found[0]

    def config(self, *, limit_s: float = QUESTION_S) -> dict[str, str]:
        """slurmctld's configuration, by parameter."""
        return parse_config(self._ask(["scontrol", "show", "config"], "read Slurm's configuration", limit_s))

    def show_policy(self, *, limit_s: float = QUESTION_S) -> dict[str, str]:
        """What `scontrol show config` and `scontrol show partition` print, and sacctmgr of the QOS where it answers; by
        command."""
        what = "read Slurm's configuration"
        commands = ("scontrol show config", "scontrol show partition")
        shown = {command: self._ask(command.split(), what, limit_s) for command in commands}
        with suppress(SchedulerError):
            command = "sacctmgr -P show qos format=Name,Preempt,PreemptMode,GraceTime,PreemptExemptTime,MaxWall"
            shown["sacctmgr show qos"] = self._ask(command.split(), what, limit_s)
        return shown

    def partition(self, name: str, *, limit_s: float = QUESTION_S) -> dict[str, str]:
        """Also one that is hidden: a job may run in it."""
        shown = self._ask(["scontrol", "-a", "-o", "show", "partition", name], f"look up partition {name}", limit_s)
        return fields(shown.strip())

    def node(self, name: str, *, limit_s: float = QUESTION_S) -> dict[str, str]:
        return fields(self._ask(["scontrol", "-o", "show", "node", name], f"look up node {name}", limit_s).strip())

    def qos(self, name: str, *, limit_s: float = QUESTION_S) -> dict[str, str]:
        """GraceTime and PreemptMode of a quality of service; empty if there is none of that name."""
        words = ["sacctmgr", "-P", "show", "qos", name, "format=Name,GraceTime,PreemptMode"]
        return next(iter(parse_table(self._ask(words, f"look up QOS {name}", limit_s))), {})

    def partitions(self, *, limit_s: float = QUESTION_S) -> list[dict[str, str]]:
        return records(self._ask(["scontrol", "-o", "show", "partition"], "look up the partitions", limit_s))

    def submit(
        self, words: Sequence[str], *, variables: Mapping[str, str] | None = None, limit_s: float = MUST_S
    ) -> str:
        """`sbatch` with these words; the job's id. `variables` are added to the environment that the job gets.

        Where slurmctld may have taken the job although its answer is lost, it is looked for before it is submitted
        again. What belongs to the attempt, or the Slurm job, that calls this is not handed on to the new job.
        """
        end = self._clock() + limit_s
        environment = {**self._for_jobs, **(variables or {})}
        known: frozenset[str] | None = None
        is_unclear = False
        said = ""
        pause = _PAUSE_S
        self._check_sbatch(end)
        while True:
            try:
                ids = self._own_jobs(end)
                if known is None:
                    known = ids
                elif is_unclear and ids - known:
                    return min(ids - known, key=int)
                answer = self._once(["sbatch", "--parsable", *words], environment, end)
                job_id = answer.out.strip().partition(";")[0]
                if answer.code == 0 and job_id:
                    return job_id
                said, is_unclear = answer.words, _is_unclear(answer)
                if not is_unclear and not _is_away(answer):
                    raise SchedulerError(
                        f"sbatch refused the job: {said}",
                        safe="nothing was submitted",
                        remedy="change the options that it names; `sinfo` shows the partitions",
                    )
            except _Away as away:
                said = said if said and away.is_silent else away.said
                is_unclear = is_unclear or away.may_be_done
            if self._clock() + pause >= end:
                raise self._gave_up("submit the job", said, limit_s, is_unclear=is_unclear)
            self._sleep(pause)
            pause = min(pause * 1.5, _MOST_PAUSE_S)

    def requeue(self, job_id: str, *, limit_s: float = MUST_S) -> None:
        """Put a job back into the queue. Where it is the caller's own, Slurm soon ends the caller."""
        self._do(["scontrol", "requeue", job_id], f"requeue job {job_id}", limit_s, done=("pending execution",))

    def update(self, job_id: str, *, limit_s: float = MUST_S, **changes: str) -> None:
        """Change a job: `update("7", ExcNodeList="n1")`."""
        pairs = [f"{name}={value}" for name, value in changes.items()]
        self._do(["scontrol", "update", f"JobId={job_id}", *pairs], f"change job {job_id}", limit_s)

    def cancel(self, job_id: str, *, limit_s: float = MUST_S) -> None:
        """End a job, or take it out of the queue. One that has ended is fine.

        A task of an array goes by "7_2": scancel passes over the number that the task has besides.
        """
        done = ("already completing or completed", "already finished")
        # Without -v it is silent about a job that does not exist, too.
        self._do(["scancel", "-v", job_id], f"cancel job {job_id}", limit_s, done=done)

    def queue(self, pattern: str, *, state: str, array: str = "", limit_s: float = QUESTION_S) -> str:
        """A line for each of this user's jobs in a state, as `squeue -o` makes it; with `array` for each task of that one."""
        which = ["-r", "-j", array] if array else []
        return self._ask(["squeue", "--me", "-h", *which, "-t", state, "-o", pattern], "look into the queue", limit_s)

    def write_batch_script(self, job_id: str, *, limit_s: float = QUESTION_S) -> str:
        """The script of a batch job, as Slurm keeps it."""
        words = ["scontrol", "write", "batch_script", job_id, "-"]
        return self._ask(words, f"read the script of job {job_id}", limit_s)

    def history(self, job_ids: Collection[str], *, limit_s: float = HISTORY_S) -> tuple[list[dict[str, str]], str]:
        """(rows, note): every run of these jobs as Slurm's accounting has it, times in seconds since 1970.

        Where there is no accounting, or it does not answer, there are no rows, and the note says why.
        """
        if not job_ids:
            return [], ""
        try:
            can = self._ask(["sacct", "--helpformat"], "ask sacct for its fields", limit_s).split()
            wanted = ",".join(field for field in _HISTORY_FIELDS if field in can)
            words = ["sacct", "-X", "--duplicates", "-P", "-S", "1970-01-02", "-o", wanted, "-j", ",".join(job_ids)]
            return parse_table(self._ask(words, "read the accounting", limit_s)), ""
        except SchedulerError as error:
            return [], error.what

    def _check_sbatch(self, end: float) -> None:
        """Where Slurm is not installed, the error names sbatch, not what we would ask before it."""
        if not self._has_sbatch:
            with suppress(_Away):
                self._once(["sbatch", "--version"], self._environment, end)
            self._has_sbatch = True

    def _own_jobs(self, end: float) -> frozenset[str]:
        """Numbers of the jobs of this user, also those that have just ended. Raises _Away."""
        answer = self._once(["squeue", "--me", "-h", "-t", "all", "-o", "%A"], self._environment, end)
        if answer.code != 0:
            if _is_away(answer) or _is_unclear(answer):
                raise _Away(answer.words)
            raise SchedulerError(
                f"cannot submit the job: squeue said: {answer.words}",
                safe="nothing was submitted",
                remedy="`sinfo` shows whether Slurm can be used here; its configuration is named by SLURM_CONF",
            )
        return frozenset(word for word in answer.out.split() if word.isdigit())

    def _ask(self, words: Sequence[str], what: str, limit_s: float) -> str:
        """A question changes nothing, so any failure to reach slurmctld is tried again."""
        return self._until_clear(words, what, limit_s).out

    def _do(self, words: Sequence[str], what: str, limit_s: float, done: tuple[str, ...] = ()) -> None:
        """Of a command that may be given twice. `done`: what is said where there is nothing left to do."""
        self._until_clear(words, what, limit_s, done)

    def _until_clear(self, words: Sequence[str], what: str, limit_s: float, done: tuple[str, ...] = ()) -> Answer:
        end = self._clock() + limit_s
        said = ""
        pause = _PAUSE_S
        while True:
            try:
                answer = self._once(words, self._environment, end)
                said = answer.words
                # scancel says what is wrong, and ends with 0.
                if answer.code == 0 and not _says(answer.err, _NO_SUCH_JOB):
                    return answer
                if _says(said, done):
                    return answer
                if _says(said, _NO_SUCH_JOB):
                    raise NoSuchJobError(
                        f"cannot {what}: Slurm knows no such job ({said})",
                        remedy="`squeue --me` lists your jobs; of one that ended long ago only `sacct` knows",
                    )
                if not _is_away(answer) and not _is_unclear(answer):
                    raise SchedulerError(f"cannot {what}: {words[0]} said: {said or f'exit code {answer.code}'}")
            except _Away as away:
                said = said if said and away.is_silent else away.said
            if self._clock() + pause >= end:
                raise self._gave_up(what, said, limit_s)
            self._sleep(pause)
            pause = min(pause * 1.5, _MOST_PAUSE_S)

    def _once(self, words: Sequence[str], environment: Mapping[str, str], end: float) -> Answer:
        """Run a command. Raises _Away if it does not end in time."""
        limit_s = max(min(_ONE_TRY_S, end - self._clock()), 0.1)
        try:
            return self._run(words, environment, limit_s)
        except subprocess.TimeoutExpired:
            said = f"{words[0]} gave no answer for {duration(limit_s)}"
            raise _Away(said, is_silent=True, may_be_done=words[0] == "sbatch") from None
        except OSError as error:
            raise SchedulerError(
                f"cannot run {words[0]}: {error.strerror}",
                safe="nothing was changed",
                remedy="run this where Slurm's commands are installed (a login node), or put them on PATH",
            ) from error

    def _gave_up(self, what: str, said: str, limit_s: float, *, is_unclear: bool = False) -> SchedulerError:
        return SchedulerError(
            f"cannot {what}: slurmctld did not answer for {duration(limit_s)}: {said}",
            safe="running jobs do not notice, and what is saved stays"
            + ("; the job may have been submitted although no answer came" if is_unclear else ""),
            remedy="`scontrol ping` shows when slurmctld is back; then "
            + ("look with `squeue --me` before you run it again" if is_unclear else "run it again"),
        )


class _Away(Exception):
    """slurmctld cannot be reached now."""

    def __init__(self, said: str, *, is_silent: bool = False, may_be_done: bool = False) -> None:
        super().__init__(said)
        self.said = said
        self.is_silent = is_silent
        """The words are ours: it said nothing."""
        self.may_be_done = may_be_done


def environment_for_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """What sbatch gets from ours, and hands on to the job: nothing of our attempt or of the Slurm job that we are in.

    A new job with the SLURM_RESTART_COUNT of another would be refused a fresh start.
    """
    inherited = {name: value for name, value in environment.items() if name not in _OF_AN_ATTEMPT}
    if value_of(inherited, "SLURM_JOB_ID"):
        inherited = {
            name: value
            for name, value in inherited.items()
            if not name.startswith("SLURM_") or name in _KEPT_FROM_SLURM
        }
    return inherited


def _says(text: str, phrases: Collection[str]) -> bool:
    lower = text.lower()
    return any(phrase in lower for phrase in phrases)


def _is_away(answer: Answer) -> bool:
    return _says(answer.words, _AWAY)


def _is_unclear(answer: Answer) -> bool:
    return _says(answer.words, _UNCLEAR)
