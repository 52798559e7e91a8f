"""From a proof to its document. Pure."""

from collections.abc import Sequence

from lastgood.prove.checkpoint_files import Units
from lastgood.prove.difference import Comparison, Difference
from lastgood.prove.document import (
    FORMAT,
    ComparedRuns,
    ProveAnswer,
    ProvedCause,
    ProvedDifference,
    ProvedKill,
    ProvedPart,
    ProvedRun,
)
from lastgood.prove.runner import Proof
from lastgood.prove.shown import Shown
from lastgood.prove.two_runs import TwoRuns
from lastgood.prove.verdict import Killed, Part


def document_of(proof: Proof, command: Sequence[str], kept: str) -> ProveAnswer:
    """`kept`: where the runs lie; empty if they were removed."""
    known = proof.known
    return ProveAnswer(
        format=FORMAT,
        command=list(command),
        answer=proof.verdict.answer.value,
        reason=proof.verdict.reason,
        way=known.way_reason if known else "",
        steps=known.profile.last_step if known else None,
        checkpoints=len(known.profile.saves) if known else 0,
        checkpoint_files=list((known.units if known else Units(())).kinds),
        took_s=proof.undisturbed[0].duration_s,
        pair=[_part(part) for part in proof.pair.parts] if proof.pair else [],
        runs=[_run(proof, i) for i in range(len(proof.killed))],
        why=[ProvedCause(cause.name, list(cause.evidence), cause.remedy) for cause in proof.causes],
        notes=list(proof.notes),
        output_tail=_tail(proof),
        kept=kept,
    )


def document_of_two(left: str, right: str, two: TwoRuns) -> ComparedRuns:
    return ComparedRuns(
        format=FORMAT,
        compared=[left, right],
        answer=two.answer.value,
        reason=two.reason,
        parts=[_part(Part(name, comparison)) for name, comparison in two.parts],
        notes=list(two.notes),
    )


def _run(proof: Proof, i: int) -> ProvedRun:
    killed, judged = proof.killed[i], proof.verdict.runs[i]
    return ProvedRun(
        name=killed.name,
        answer=judged.answer.value,
        reason=judged.reason,
        also=[f"{answer.value}: {reason}" for answer, reason in judged.also],
        exit_code=killed.exit_code,
        took_s=killed.took_s,
        kills=_kills(killed),
        parts=[_part(part) for part in killed.parts],
    )


def _kills(killed: Killed) -> list[ProvedKill]:
    told = []
    after = iter(killed.resumed)
    for hit in killed.hits:
        resumed = next(after, None) if hit.is_hit else None
        told.append(
            ProvedKill(
                phase=hit.kill.phase.value,
                is_hit=hit.is_hit,
                step=resumed.killed_at if resumed else hit.step,
                detail=hit.detail,
                unsound=list(hit.unsound),
                resumed_from=resumed.step if resumed else None,
                newest_step=resumed.newest_step if resumed else None,
                newest=resumed.newest if resumed else "",
            )
        )
    return told


def _part(part: Part) -> ProvedPart:
    found: Comparison = part.comparison
    return ProvedPart(
        name=part.name,
        kind=found.kind,
        compared=found.compared,
        differing=found.differing,
        beyond=found.beyond,
        equal_to=part.equal_to,
        ends_at=part.ends_at if part.ends_elsewhere else None,
        should_end_at=part.should_end_at if part.ends_elsewhere else None,
        first=_difference(found.first_beyond or found.first),
        largest_absolute=_difference(found.largest_absolute),
        largest_relative=_difference(found.largest_relative),
        largest_ulp=_difference(found.largest_ulp),
        items=list(part.items),
        notes=list(found.notes),
    )


def _difference(one: Difference | None) -> ProvedDifference | None:
    if one is None:
        return None
    return ProvedDifference(
        step=one.step,
        where=one.where,
        what=one.what,
        undisturbed=one.left,
        resumed=one.right,
        absolute=one.absolute,
        relative=one.relative,
        ulp=one.ulp,
        reason=one.reason,
    )


def _tail(proof: Proof) -> list[str]:
    """Of the run that failed, if one did."""
    failed: list[Shown] = [shown for shown in (*proof.shown, *proof.undisturbed) if shown.exit_code not in (0, None)]
    return failed[0].last_lines() if failed else []
