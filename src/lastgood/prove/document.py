"""The answer of a proof as a document: what `--json` prints, and what the page and the JUnit file are made from. Types only, so that
a command which documents its answers with them loads nothing else."""

from typing import Annotated, Literal

import msgspec

FORMAT = 1


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Strict when decoded, so that a test sees a member that is not documented."""


AnswerName = Literal[
    "identical",
    "within tolerance",
    "diverged",
    "lost work",
    "did not resume",
    "not deterministic in itself",
    "unknown",
]


class ProvedDifference(_Answer):
    step: Annotated[int | None, _says("at which step; null where there are no steps")]
    where: Annotated[str, _says("the file or the rank; empty where there is only one")]
    what: Annotated[str, _says("the value, the array, the element")]
    undisturbed: Annotated[str, _says("what the undisturbed run has there; empty if it has nothing")]
    resumed: Annotated[str, _says("what the other run has there")]
    absolute: Annotated[float | None, _says("absolute difference; null where it is no number")]
    relative: Annotated[float | None, _says("relative to the larger of the two; null where it is no number")]
    ulp: Annotated[int | None, _says("representable numbers between the two; null where there are none to count")]
    reason: Annotated[str, _says("what kind of difference, where numbers do not tell")]


class ProvedPart(_Answer):
    name: Annotated[str, _says("what was compared")]
    kind: Annotated[Literal["identical", "within", "differs", "not comparable"], _says("the answer")]
    compared: Annotated[int, _says("how many values were held against each other")]
    differing: Annotated[int, _says("how many are not equal bit for bit")]
    beyond: Annotated[int, _says("how many are further apart than the tolerance allows")]
    equal_to: Annotated[int | None, _says("the last step up to which all was equal; null if nothing differs")]
    ends_at: Annotated[
        int | None, _says("the step at which it ended, where that is not the undisturbed run's last; otherwise null")
    ]
    should_end_at: Annotated[int | None, _says("the undisturbed run's last step in that case")]
    first: Annotated[ProvedDifference | None, _says("the first difference")]
    largest_absolute: Annotated[ProvedDifference | None, _says("the largest absolute difference")]
    largest_relative: Annotated[ProvedDifference | None, _says("the largest relative difference")]
    largest_ulp: Annotated[ProvedDifference | None, _says("the largest difference in ULP")]
    items: Annotated[list[str], _says("names of the values, or the files")]
    notes: Annotated[list[str], _says("what was left out, and why")]


class ProvedKill(_Answer):
    phase: Annotated[str, _says("where it was to land")]
    is_hit: Annotated[bool, _says("it has hit; a run whose kill missed proves nothing")]
    step: Annotated[int | None, _says("the newest step that was seen to be done before; null if none can be seen")]
    detail: Annotated[str, _says("how it was done, or why it missed")]
    unsound: Annotated[list[str], _says("checkpoints that were not whole after it, each with what is wrong")]
    resumed_from: Annotated[int | None, _says("the step after which the run went on; null if that cannot be seen")]
    newest_step: Annotated[int | None, _says("the step of the newest checkpoint that was complete before")]
    newest: Annotated[str, _says("its name; empty if there was none")]


class ProvedRun(_Answer):
    name: Annotated[str, _says("of its directory, below the kept one")]
    answer: Annotated[AnswerName, _says("of this run alone")]
    reason: Annotated[str, _says("why")]
    also: Annotated[list[str], _says("what is true of it, too")]
    exit_code: Annotated[int | None, _says("in the end; null if the limit passed")]
    took_s: Annotated[float, _says("seconds from its start to its end")]
    kills: Annotated[list[ProvedKill], _says("in order")]
    parts: Annotated[list[ProvedPart], _says("what was compared with the undisturbed run")]


class ProvedCause(_Answer):
    name: Annotated[str, _says("in a few words")]
    evidence: Annotated[list[str], _says("what was seen that points to it")]
    remedy: Annotated[str, _says("what to do")]


class ProveAnswer(_Answer):
    format: Annotated[int, _says("of this document")]
    command: Annotated[list[str], _says("the command that was proved")]
    answer: Annotated[AnswerName, _says("the answer to all")]
    reason: Annotated[str, _says("why")]
    way: Annotated[str, _says("how the killed command was started again")]
    steps: Annotated[int | None, _says("the last step of the undisturbed run; null if none can be seen")]
    checkpoints: Annotated[int, _says("how many it has written")]
    checkpoint_files: Annotated[
        list[str], _says("their kinds, # in place of numbers; empty where the library writes them")
    ]
    took_s: Annotated[float, _says("seconds of the first undisturbed run")]
    pair: Annotated[list[ProvedPart], _says("the two undisturbed runs held against each other")]
    runs: Annotated[list[ProvedRun], _says("the runs that were killed")]
    why: Annotated[list[ProvedCause], _says("what may be the reason, where the answer is no; the most certain first")]
    notes: Annotated[list[str], _says("what is not compared, what was done again, and why")]
    output_tail: Annotated[
        list[str], _says("the last lines of the output of the run that decided, where the answer is no")
    ]
    kept: Annotated[str, _says("the directory in which the runs are kept; empty if it was removed")]


class ComparedRuns(_Answer):
    format: Annotated[int, _says("of this document")]
    compared: Annotated[list[str], _says("the two, as they were named")]
    answer: Annotated[AnswerName, _says("the answer to all")]
    reason: Annotated[str, _says("why")]
    parts: Annotated[list[ProvedPart], _says("what was compared; the first of the two counts as undisturbed")]
    notes: Annotated[list[str], _says("environments that differ, and what only one of them has")]
