"""What can happen in an attempt, as lines of its journal. Readers ignore kinds they do not know."""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of attempts/NNNN.events.jsonl. `at` is in seconds since 1970, by the writer's clock.

    Kinds and their `data`:
      started     how ("fresh", "resumed"), step, reason, rejected,
                  is_from_memory, fingerprint                                         by the job's program
      stepped     step                                                   its first step is done
      refused     reason                                                 the start: a checkpoint was expected
      launched    command, pid, birth, heartbeats, host, is_standby       by the launcher
      allocation  scheduler, cluster, job_id, array_job_id, array_task_id, restart_count, nodes, node (the launcher's),
                  gpus, partition,
                  chain (the same for all segments of a submission), mechanism        by the launcher
      surroundings fingerprint (of a command that keeps none itself), gpu_models (with --same-gpu: of
                  those that the job may use, one each)                   by the launcher
      standby     is_ready, modules, uss_bytes, pss_bytes, took_s, reason by the launcher
      committed   step, name, bytes, write_s; stage, host if it is staged  a checkpoint exists
      stalled     step, stall_s                                          how long the loop stood still for a save
      promoted    step, name, bytes, took_s                              from a stage to the job's own directory
      not_promoted step, error                                           it is tried again
      save_failed step, error                                            a save did not work
      late        step, since_s, interval_s                              a save is due, one is not written yet
      keeper_lost pid, error, unfinished (steps); node                   by the program, or by the launcher
      agents_lost nodes, error                                           by the launcher, which starts others
      snapshots   rank, slots, slot_bytes                                memory that a rank has for them
      paced       interval_s, margin_s (null: not said),
                  stall_s (null before the first save)                   how often it saves now
      rejected    name, problem                                          failed to restore
      not_deleted step, error                                            retention could not do its work
      deleted     name, reason                                           by retention
      left        step, saved_step                                       the program let go before all was done
      stopping    cause, step                                            a stop was asked for
      exception   type, text, step, rank                                 the program raised
      finished    step                                                   all steps are done
      hang        what, ranks (asked for their stacks), silent_s         by the launcher
      ended       outcome, reason, exit_code, step, last_good_step,
                  made_progress, stop_cause; node on which a failure like
                  hardware's ended it                                    by the launcher
      decided     action, reason, delay_s, exit_code, restarts_left      by the launcher
      excluded    nodes, reason                                          by the launcher: the job stays away from them
      set_aside   files (of a command with checkpoints of its own)       by the launcher, for a new start
    """

    kind: str
    at: float
    data: dict[str, Any] = {}


KINDS = frozenset(
    "started stepped refused launched allocation surroundings standby committed stalled promoted not_promoted save_failed late "
    "keeper_lost agents_lost snapshots paced rejected not_deleted deleted left stopping exception finished hang ended "
    "decided excluded set_aside".split()
)
"""Those that this version knows: a reader that shows a journal to people says which others there are."""


def encode(event: Event) -> bytes:
    try:
        return msgspec.json.encode(event) + b"\n"
    except UnicodeEncodeError:
        # Names of files can have bytes that are no text.
        return msgspec.json.encode(msgspec.structs.replace(event, data=_printable(event.data))) + b"\n"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_printable(one) for one in value]
    return {name: _printable(one) for name, one in value.items()} if isinstance(value, dict) else value


def decode_lines(data: bytes) -> list[Event]:
    """The events in a journal. A torn last line, or any line that is not an event, is passed over:
    a journal tells what happened; it is never the proof that a checkpoint exists."""
    return [event for line in data.split(b"\n") if (event := _decoded(line)) is not None]


def torn_lines(data: bytes) -> list[int]:
    """The numbers, from 1, of the lines that `decode_lines` passes over.

    >>> torn_lines(b'{"kind":"started","at":1.0}\\n{"kind":"comm')
    [2]
    """
    return [i for i, line in enumerate(data.split(b"\n"), 1) if line and _decoded(line) is None]


def _decoded(line: bytes) -> Event | None:
    try:
        return msgspec.json.decode(line, type=Event)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
