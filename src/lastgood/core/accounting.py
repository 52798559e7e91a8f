"""What each attempt of a job did and lost, from the journals alone. Pure.

steps done   = step reached - step it began after
steps lost   = step reached - step that the next attempt began after (none if that is higher); at least that,
               where nobody saw which step the attempt had reached when it ended; none if it finished, and none came after
seconds lost = time from the commit of that step, or from the start of the attempt if it was
               committed before, to the end of the attempt
"""

import msgspec

from lastgood.core.events import Event
from lastgood.core.outcome import Outcome


class Record(msgspec.Struct, frozen=True):
    """An attempt as it is on disk: its claim and its journal."""

    number: int
    began: float
    """Seconds since 1970."""
    launch: str
    is_fresh: bool
    events: list[Event]

    @property
    def is_launched(self) -> bool:
        return self.first("launched") is not None

    @property
    def is_wrapped(self) -> bool:
        """Its command has checkpoints of its own, which the launcher found."""
        started = self.first("started")
        return started is not None and bool(started.data.get("is_wrapped"))

    def first(self, kind: str) -> Event | None:
        return next((event for event in self.events if event.kind == kind), None)

    def last(self, kind: str) -> Event | None:
        return next((event for event in reversed(self.events) if event.kind == kind), None)


class Account(msgspec.Struct, frozen=True):
    """One attempt, accounted for. Steps are None where no journal tells them."""

    number: int
    began: float
    ended: float | None
    """None while it runs, or if nothing says when it ended."""
    how: str
    """"fresh", "resumed", or empty if the program never said."""
    outcome: str
    """As core.outcome has it; empty if the attempt runs or nobody saw its end."""
    reason: str
    from_step: int | None
    reached_step: int | None
    saved_step: int | None
    """Newest step that it committed."""
    lost_steps: int
    lost_s: float
    is_loss_known: bool
    """False if more may be lost, because nothing tells which step it had reached at its end."""
    is_inner: bool
    """It was started by a restart inside the attempt before it (torchrun restarting its workers)."""

    @property
    def steps_done(self) -> int | None:
        if self.from_step is None or self.reached_step is None:
            return None
        return max(self.reached_step - self.from_step, 0)

    @property
    def has_progressed(self) -> bool | None:
        """It committed a step beyond the one that it began after; None if nothing tells whether it saves."""
        if self.saved_step is not None:
            return self.saved_step > (self.from_step or 0)
        return False if self.how else None


RESTARTED_INSIDE = "restarted inside"
"""Outcome of an attempt that something below the launcher (torchrun) ended and followed by another."""


def account(records: list[Record], last_good_step: int | None, *, is_running: bool = False) -> list[Account]:
    """Account for attempts, oldest first. What the newest one loses is judged by `last_good_step`.

    An attempt that still runs has lost nothing yet.
    """
    accounts = []
    told = with_ends_moved_inside(records)
    for i, record in enumerate(told):
        following = told[i + 1 :]
        kept = _resumed_at(following) if following else last_good_step
        accounts.append(
            _account(
                record,
                last_good_step if kept is None else kept,
                is_inner=_is_inner(records, i),
                began_next=following[0].began if following else None,
                is_running=is_running and not following,
                is_followed_inside=bool(following) and _is_inner(records, i + 1),
            )
        )
    return accounts


def with_ends_moved_inside(records: list[Record]) -> list[Record]:
    """The launcher writes how its attempt ended into its own journal; that is the end of the last restart in it."""
    told = list(records)
    for i in range(len(told)):
        if i and _is_inner(records, i):
            ends = [event for event in told[i - 1].events if event.kind in ("ended", "decided", "hang")]
            before = [event for event in told[i - 1].events if event not in ends]
            told[i - 1] = msgspec.structs.replace(told[i - 1], events=before)
            told[i] = msgspec.structs.replace(told[i], events=[*told[i].events, *ends])
    return told


def launches_after(records: list[Record]) -> list[Record]:
    """The records that decisions look back on: those since the last new start, and since the job was last
    given up or done. Whoever starts it again after that has seen to it."""
    begin = 0
    for i, record in enumerate(records):
        if record.is_fresh:
            begin = i
        decided = record.last("decided")
        if decided is not None and decided.data.get("action") in ("give up", "done"):
            begin = i + 1
    return records[begin:]


def joined(records: list[Record]) -> list[Record]:
    """One record for each attempt of a launcher, with the events of the restarts inside it."""
    whole: list[Record] = []
    for i, record in enumerate(records):
        if whole and _is_inner(records, i):
            outer = whole[-1]
            events = sorted([*outer.events, *record.events], key=lambda event: event.at)
            whole[-1] = msgspec.structs.replace(outer, events=events)
        else:
            whole.append(record)
    return whole


def _is_inner(records: list[Record], i: int) -> bool:
    record = records[i]
    if not record.launch or record.is_launched:
        return False
    return any(earlier.launch == record.launch and earlier.is_launched for earlier in records[:i])


def _account(
    record: Record,
    kept_step: int | None,
    *,
    is_inner: bool,
    began_next: float | None,
    is_running: bool,
    is_followed_inside: bool,
) -> Account:
    started, ended = record.first("started"), record.last("ended")
    end = ended or record.last("finished")
    saved = [
        (step, saved_at(event))
        for event in record.events
        if event.kind == "committed" and (step := _step(event)) is not None
    ]
    reached = max((step for event in record.events if (step := _step(event)) is not None), default=None)
    last_at = max((event.at for event in record.events), default=record.began)
    if end is not None:
        ended_at: float | None = end.at
    elif is_running:
        ended_at = None
    else:
        ended_at = began_next if is_followed_inside else last_at
    outcome = str(ended.data.get("outcome", "")) if ended else "finished" if end else ""
    lost_steps, lost_s = 0, 0.0
    kept = kept_step or 0
    # What is finished is not done again, wherever its last checkpoint was, and whether or not it is still there.
    is_done = began_next is None and outcome == Outcome.FINISHED.value
    if ended_at is not None and reached is not None and reached > kept and not is_done:
        lost_steps = reached - kept
        # By its step: a clock that was set back makes an older commit the later one.
        _, kept_at = max((one for one in saved if one[0] <= kept), default=(0, record.began))
        lost_s = max(ended_at - kept_at, 0.0)
    return Account(
        number=record.number,
        began=record.began,
        ended=ended_at,
        how=str(started.data.get("how", "")) if started else "",
        outcome=outcome or (RESTARTED_INSIDE if is_followed_inside else ""),
        reason=str(ended.data.get("reason", "")) if ended else "",
        from_step=_step(started),
        reached_step=reached,
        saved_step=max((step for step, _ in saved), default=None),
        lost_steps=lost_steps,
        lost_s=lost_s,
        is_loss_known=ended_at is None or outcome in _WITHOUT_LOSS or _is_end_seen(record),
        is_inner=is_inner,
    )


_WITHOUT_LOSS = (Outcome.FINISHED.value, Outcome.REFUSED.value)
_LAST_WORDS = ("ended", "exception", "stopping", "left", "finished")
"""What is written at the end of an attempt, with the step if that is known."""


def _is_end_seen(record: Record) -> bool:
    """True if the journal tells the step that an attempt had reached at its end, or that it never began one."""
    if not record.is_launched and record.first("started") is None:
        # The program writes down that it has started before its first step.
        return True
    return any(event.kind in _LAST_WORDS and _step(event) is not None for event in record.events)


def _resumed_at(following: list[Record]) -> int | None:
    """The step that the next attempt which came as far as starting began after."""
    for record in following:
        if (started := record.first("started")) is not None:
            return _step(started)
    return None


def saved_at(committed: Event) -> float:
    """When a checkpoint was written, in seconds since 1970. Of an application's own the launcher learns a little later."""
    modified_ns = committed.data.get("modified_ns")
    return min(modified_ns / 1e9, committed.at) if isinstance(modified_ns, int) else committed.at


def _step(event: Event | None) -> int | None:
    if event is None:
        return None
    step = event.data.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None
