"""Whose fingerprint a person means: this machine, an interpreter, a file, a checkpoint, a job or one attempt of it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lastgood.core import layout
from lastgood.core.accounting import Record
from lastgood.core.errors import CommandNotFoundError, DamagedError, NoSuchJobError, UsageError
from lastgood.core.fingerprint import EDITION

HERE = "here"
_LIMIT_S = 120.0
"""Importing torch from a file system that many nodes share can take a minute."""
_MARK = "lastgood-facts:"
_PROBE = """\
import json, platform, sys
found = {"python": platform.python_version()}
for source in json.load(sys.stdin):
    names = {"__name__": "facts"}
    try:
        exec(source, names)
        found.update(names["facts"]())
    except ImportError:
        pass
print("\\n%s%s" % (sys.argv[1], json.dumps(found)))
"""


class Taken(msgspec.Struct, frozen=True):
    """Facts, and whose they are."""

    of: str
    facts: dict[str, str]
    note: str = ""


def take_here(environment: Mapping[str, str]) -> Taken:
    """Of this machine and the interpreter that runs us; torch is not imported for it."""
    from importlib.util import find_spec

    from lastgood.cli.surroundings import facts_of_machine
    from lastgood.frameworks import numpy_facts
    from lastgood.runtime.host import process_facts

    facts, note = facts_of_machine(environment)
    notes = [note] if note else []
    if find_spec("torch") is not None:
        notes.append("torch is installed and was not imported: `lastgood fingerprint -- python` asks it")
    return Taken("this machine", {**facts, **process_facts(), **numpy_facts.facts()}, "; ".join(notes))


def take_command(words: Sequence[str], environment: Mapping[str, str]) -> Taken:
    """Of this machine and what a command would run with: a Python, with NumPy and torch imported, or a GROMACS."""
    from lastgood.apps.gromacs_build import facts_of, program_of
    from lastgood.cli.surroundings import facts_of_machine
    from lastgood.core.fingerprint import NEWEST_EDITION

    name = os.path.basename(words[0])
    if program_of(words):
        found = facts_of(words, environment)
        if not found:
            raise CommandNotFoundError(f"{program_of(words)} cannot be found, or does not run")
    elif name.startswith(("python", "pypy")):
        found = _asked(words[0], environment)
    else:
        raise UsageError(
            f"{words[0]}: what it computes with is not known here",
            remedy="name a Python (`-- python`), or a command of GROMACS (`-- gmx mdrun -reprod`)",
        )
    facts, note = facts_of_machine(environment)
    return Taken(" ".join(words), {EDITION: NEWEST_EDITION, **facts, **found}, note)


def _asked(interpreter: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What another interpreter says of its libraries. It need not have lastgood."""
    from lastgood.frameworks import numpy_facts

    # Not imported here: the module imports torch, and ours need not have it.
    sources = [Path(numpy_facts.__file__), Path(numpy_facts.__file__).with_name("torch_facts.py")]
    try:
        done = subprocess.run(
            [interpreter, "-c", _PROBE, _MARK],
            input=json.dumps([source.read_text(encoding="utf-8") for source in sources]),
            env=dict(environment),
            stdout=subprocess.PIPE,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise CommandNotFoundError(f"{interpreter} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{interpreter} did not answer within {_LIMIT_S:g} s") from error
    answer = next((line for line in reversed(done.stdout.splitlines()) if line.startswith(_MARK)), None)
    if answer is None:
        raise UsageError(f"{interpreter} ended with {done.returncode} and gave no answer; what it said stands above")
    return dict(json.loads(answer.removeprefix(_MARK)))


def take(name: str, environment: Mapping[str, str]) -> Taken:
    """What `--diff` is given. Raises NoSuchJobError for what is none of those, DamagedError for a file of something else."""
    from lastgood.cli.jobs import open_named

    if name == HERE:
        return take_here(environment)
    path = Path(name)
    if path.is_file():
        return _of_file(path)
    if (path / layout.MANIFEST_FILE).is_file():
        return _of_checkpoint(path)
    if os.path.lexists(path) or ":" not in name:
        job, number = open_named(name), None
    else:
        before, _, last = name.rpartition(":")
        if not last.isdigit():
            raise NoSuchJobError(f"{name}: no such file or job", remedy="name an attempt of a job as JOB:3")
        job, number = open_named(before), int(last)
    return _of_job(str(job.path), number)


def _of_file(path: Path) -> Taken:
    from lastgood.store import durable

    with durable.explained("read", path):
        data = path.read_bytes()
    if path.name == layout.MANIFEST_FILE:
        return _of_checkpoint(path.parent)
    try:
        read = msgspec.json.decode(data)
        facts = {str(fact["name"]): str(fact["value"]) for fact in read["facts"]}
        return Taken(os.fspath(path), {EDITION: str(read["edition"]), **facts})
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(
            f"{path} holds no fingerprint", remedy="`lastgood fingerprint --json > FILE` writes such a file"
        ) from error


def _of_checkpoint(path: Path) -> Taken:
    from lastgood.store import durable
    from lastgood.store.jobdir import open_job
    from lastgood.store.reader import open_checkpoint

    path = path.absolute()
    job = open_job(path.parent.parent)
    with durable.explained("read the checkpoint", path):
        manifest = open_checkpoint(job, path.name).manifest
    return Taken(os.fspath(path), manifest.fingerprint)


def _of_job(path: str, number: int | None) -> Taken:
    """Of an attempt, by its journal, else by the newest checkpoint that it wrote; without a number, of the newest that
    tells."""
    from lastgood.launch.history import read_records
    from lastgood.store import durable
    from lastgood.store.jobdir import open_job
    from lastgood.store.survey import survey

    job = open_job(path)
    with durable.explained("read the history of", job.attempts):
        records = read_records(job)
    if number is not None and number not in [record.number for record in records]:
        raise NoSuchJobError(f"there is no attempt {number} in {path}: it has {len(records)}")
    surveyed = survey(job)
    for record in reversed(records):
        if number not in (None, record.number):
            continue
        written = [one.manifest for one in surveyed if one.manifest is not None]
        saved = next((manifest.fingerprint for manifest in written if manifest.attempt == record.number), {})
        if facts := _told(record) or saved:
            return Taken(f"{path}:{record.number}", facts)
    which = "no attempt has" if number is None else f"attempt {number} has not"
    raise NoSuchJobError(
        f"{path}: {which} written down where it ran",
        remedy="programs that use lastgood do when they start, and wrapped commands when they are started",
    )


def _told(record: Record) -> dict[str, str]:
    for kind in ("started", "surroundings"):
        event = record.last(kind)
        found = event.data.get("fingerprint") if event is not None else None
        if isinstance(found, dict) and found:
            return {str(name): str(value) for name, value in found.items()}
    return {}
