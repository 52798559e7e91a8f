"""Ranks that succeed or fail together: one looks and tells the others, or each says how it fared."""

import json
from collections.abc import Callable
from typing import Any

from lastgood.core import errors
from lastgood.core.errors import LastgoodError
from lastgood.runtime.ports import Ranks
from lastgood.store import durable


def from_rank_0(ranks: Ranks, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do something on rank 0 only and give every rank its answer (JSON), or raise its error everywhere."""
    answer: dict[str, Any] = {}
    problem: LastgoodError | None = None
    if ranks.rank == 0:
        try:
            answer = {"answer": work()}
        except LastgoodError as error:
            problem = error
        except OSError as error:
            problem = durable.explain(error, "use", error.filename or "the job's directory")
        if problem is not None:
            told = {"what": problem.what, "safe": problem.safe, "remedy": problem.remedy}
            answer = {"error": type(problem).__name__, **told}
    answer = json.loads(ranks.tell(json.dumps(answer)))
    if problem is not None:
        raise problem
    if "error" in answer:
        kind: type[LastgoodError] = getattr(errors, answer["error"])
        raise kind(f"rank 0: {answer['what']}", safe=answer["safe"], remedy=answer["remedy"])
    result: dict[str, Any] = answer["answer"]
    return result


def raise_together(ranks: Ranks, error: LastgoodError | None, safe: str) -> None:
    """Raise on every rank if any rank has an error: its own, or one that names the ranks that have."""
    codes = of_each_rank(ranks, 0 if error is None else error.exit_code)
    if error is not None:
        raise error
    if any(codes):
        kind = {kind.exit_code: kind for kind in LastgoodError.__subclasses__()}[max(codes)]
        raise kind(f"{named(codes)} cannot go on", safe=safe, remedy="see the message of that rank")


def of_each_rank(ranks: Ranks, value: int) -> list[int]:
    """What every rank has given, 0 or more, by rank. Every rank must call."""
    values = [0] * ranks.world_size
    values[ranks.rank] = value
    return ranks.maximum(values)


def named(values: list[int]) -> str:
    """The ranks whose value is not 0.

    >>> named([0, 1, 0]), named([1, 1])
    ('rank 1', 'ranks 0, 1')
    """
    found = [str(rank) for rank, value in enumerate(values) if value]
    return f"rank{'s' if len(found) > 1 else ''} {', '.join(found)}"
