"""The command of a start, as its description tells: arguments, inputs that say other things, files that go."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lastgood.apps.described_values import Values, read_text
from lastgood.apps.description_tables import Edit, Start
from lastgood.core.errors import UsageError
from lastgood.core.quoting import shown
from lastgood.launch.ports import Order
from lastgood.store import durable

_COPY = "lastgood-resume"


class Plan(msgspec.Struct, frozen=True):
    """A start, and what has to be done before it."""

    order: Order
    copies: dict[str, str]
    """Inputs to write, by their paths."""
    removals: tuple[str, ...]


def plan_start(
    start: Start, command: Sequence[str], values: Values, given: Mapping[str, str], *, is_resumed: bool
) -> Plan:
    """Changes nothing. Raises UsageError and OSError."""
    words, copies, notes = list(command), {}, []
    for edit in start.edit if is_resumed else []:
        path, text = values.fill(edit.file, given), ""
        text = _edited(path, edit, values, given)
        copy = f"{path}.{_COPY}"
        if path not in words:
            raise UsageError(
                f"the command has no word {shown(path)}, whose copy it should get", safe="nothing was started"
            )
        words = [copy if word == path else word for word in words]
        copies[copy] = text
        notes.append(f"reads {shown(copy)}, made from {shown(path)}")
    more = [*start.always, *(start.resume if is_resumed else start.fresh)]
    words += [values.fill(word, given) for word in more]
    removals = tuple(path for path in (values.fill(path, given) for path in start.remove) if os.path.lexists(path))
    notes += [f"{shown(path)} is removed: it would stop the run again" for path in removals]
    environment = {name: values.fill(text, given) for name, text in start.environment.items()}
    return Plan(Order(words, environment, tuple(notes)), copies, removals)


def carry_out(plan: Plan) -> Order:
    """Do what has to be done before the start. Raises a StorageError or the like."""
    for path in plan.removals:
        with durable.explained("remove", path):
            durable.delete_file(Path(path))
    for path, text in plan.copies.items():
        with durable.explained("write", path):
            durable.write_shared_file(Path(path), text.encode("utf-8", "surrogateescape"))
    return plan.order


def _edited(path: str, edit: Edit, values: Values, given: Mapping[str, str]) -> str:
    text = read_text(path)
    if text is None:
        raise UsageError(f"the input {shown(path)} is not there", safe="nothing was started")
    for change in edit.replace:
        if change.only_if and not re.search(change.only_if, text):
            continue
        if re.search(change.pattern, text):
            filled = values.fill(change.text, given)
            text = re.sub(change.pattern, lambda _, filled=filled: filled, text)  # type: ignore[misc]
        elif change.insert_after and (match := re.search(change.insert_after, text)):
            text = f"{text[: match.end()]}\n{values.fill(change.text, given)}{text[match.end() :]}"
        elif change.insert_after:
            raise UsageError(
                f"{shown(path)} has neither {change.pattern!r} nor {change.insert_after!r}: it cannot be made to resume",
                safe="nothing was started",
            )
    return text
