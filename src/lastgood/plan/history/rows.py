"""Pieces of a file as tables of text, a column for each that we read. Rows that do not fit are joined, or counted.

A line break that somebody wrote into a comment cuts a row in two. Such parts are put together where they come to one
whole row; a line with too many columns is not guessed at.
"""

import csv
from collections.abc import Iterator

import polars as pl

from lastgood.plan.history.heading import Heading
from lastgood.plan.history.lines import Piece
from lastgood.plan.history.misread import Misreadings, quoted

LINE = "line"
_MOST_PARTS = 100

NO_ROW = "a line with another number of columns than the heading"


class RowReader:
    """Cuts pieces into rows. Give it the pieces in order, and call `give_up` at the end."""

    def __init__(self, heading: Heading, misread: Misreadings) -> None:
        self._heading = heading
        self._misread = misread
        self._parts: list[tuple[int, str]] = []
        """Lines that may be the begin of a row; they are the last that were read."""
        self._parts_gaps = 0
        self._has_row_before = False
        self.joined = 0
        """Rows that were put together, and rests of rows."""
        self.unfit = 0
        """Rows that have another number of columns than the heading."""
        self.is_cut_off = False

    def rows(self, piece: Piece) -> pl.DataFrame:
        """The rows of a piece as text, with their line."""
        self.is_cut_off = piece.is_cut_off
        heading = self._heading
        lines = pl.DataFrame({"text": pl.Series(piece.text.split("\n"), dtype=pl.String)}).with_row_index(
            LINE, offset=piece.first_line
        )
        fits = pl.col("text").str.count_matches(heading.delimiter, literal=True) == heading.gaps
        if heading.is_closed:
            fits &= pl.col("text").str.ends_with(heading.delimiter)
        if heading.delimiter == ",":
            fits &= ~pl.col("text").str.contains('"', literal=True)
        lines = lines.with_columns(fits=fits)
        whole = lines.filter("fits")
        if whole.height < lines.height or self._parts:
            joined = pl.DataFrame(
                list(self._mend(lines, whole.height)), schema={LINE: pl.UInt32, "text": pl.String}, orient="row"
            )
            table = pl.concat([self._cut(whole.drop("fits")), self._cut(joined)])
        else:
            self._has_row_before = True
            table = self._cut(whole.drop("fits"))
        return table

    def _cut(self, lines: pl.DataFrame) -> pl.DataFrame:
        heading = self._heading
        lines = lines.filter(pl.col("text") != heading.line)
        parts = lines["text"].str.split_exact(heading.delimiter, heading.gaps).struct
        columns = {role: parts.field(f"field_{place}") for role, place in heading.places.items()}
        return pl.DataFrame({LINE: lines[LINE], **columns})

    def _mend(self, lines: pl.DataFrame, whole: int) -> Iterator[tuple[int, str]]:
        """Rows that had been cut in several lines."""
        odd = lines.filter(~pl.col("fits"))
        if self._parts and (not odd.height or odd[LINE][0] != lines[LINE][0]):
            self.give_up()
        before = int(lines[LINE][0]) - 1
        for number, text, _ in odd.iter_rows():
            if number != before + 1:
                self.give_up()
                self._has_row_before = True
            yield from self._take(number, text)
            before = number
        if before != int(lines[LINE][-1]):
            self.give_up()
            self._has_row_before = self._has_row_before or whole > 0

    def _take(self, number: int, text: str) -> Iterator[tuple[int, str]]:
        heading = self._heading
        if heading.delimiter == "," and '"' in text:
            values = next(csv.reader([text]), [])
            if len(values) == len(heading.names):
                # Commas within a value are of no use to us beyond being commas.
                yield number, ",".join(value.replace(",", ";") for value in values)
                return
        gaps = text.count(heading.delimiter)
        if not gaps and not self._parts:
            if not text.strip():
                return
            if heading.ends_in_free_text and self._has_row_before:
                self.joined += 1
                return
        if self._parts_gaps + gaps > heading.gaps or len(self._parts) >= _MOST_PARTS:
            self.give_up()
        if gaps > heading.gaps:
            self._unfit(f"line {number}: {gaps + 1 - heading.is_closed} columns")
            return
        self._parts.append((number, text))
        self._parts_gaps += gaps
        if self._parts_gaps == heading.gaps and (not heading.is_closed or text.endswith(heading.delimiter)):
            yield self._parts[0][0], " ".join(part for _, part in self._parts)
            self.joined += 1
            self._parts, self._parts_gaps = [], 0

    def give_up(self) -> None:
        """What was held back as the begin of a row is none. Also to be called after the last piece."""
        if self._parts and not self._parts_gaps and self._heading.begins_in_free_text:
            # The rest of that row is a whole one.
            self.joined += 1
        elif self._parts:
            number, text = self._parts[0]
            self._unfit(f"line {number}: {quoted(text)}")
        self._parts, self._parts_gaps = [], 0

    def _unfit(self, example: str) -> None:
        self._misread.add(NO_ROW, 1, [example])
        self.unfit += 1
