"""Output of sacct for tests: rows by their values, and the figures that follow from them."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

from lastgood.plan.history.answer import AccountingAnswer
from lastgood.plan.history.figures import figures_of
from lastgood.plan.history.runs import Reading, read_runs

COLUMNS = "JobID State ExitCode Submit Start End ElapsedRaw NNodes NodeList AllocTRES Partition".split()

DAY = {
    "JobID": "1",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "2026-03-02T00:00:00",
    "Start": "2026-03-02T00:00:00",
    "End": "2026-03-03T00:00:00",
    "ElapsedRaw": "86400",
    "NNodes": "1",
    "NodeList": "n1",
    "AllocTRES": "cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=100G,node=1",
    "Partition": "gpu",
}
"""One node for one day."""


def run(**values: str) -> dict[str, str]:
    return {**DAY, **values}


def text_of(
    rows: Iterable[Mapping[str, str]], columns: Iterable[str] = COLUMNS, *, delimiter: str = "|", end: str = "\n"
) -> str:
    columns = list(columns)
    lines = [delimiter.join(columns), *(delimiter.join(row[name] for name in columns) for row in rows)]
    return "".join(line + end for line in lines)


def read(text: str | bytes, **options: Any) -> Reading:
    data = text if isinstance(text, bytes) else text.encode()
    return read_runs(io.BytesIO(data), "jobs.txt", **options)


def figures(*rows: Mapping[str, str], columns: Iterable[str] = COLUMNS, **options: Any) -> AccountingAnswer:
    return figures_of(read(text_of(rows, columns)), "jobs.txt", **options)
