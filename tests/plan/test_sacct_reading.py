"""Rows of sacct's output, whole and broken, in files of every kind; what does not fit is counted with its line."""

import bz2
import gzip
import lzma
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.cli.accounting_text import csv_of
from lastgood.cli.accounting_text import text_of as text_of_answer
from lastgood.core.errors import DamagedError, LastgoodError, UsageError
from lastgood.plan.history.figures import figures_of
from plan.sacct_file import COLUMNS, DAY, figures, read, run, text_of

WITH_COMMENT = [*COLUMNS[:5], "Comment", *COLUMNS[5:]]


def many(count=40):
    draw = random.Random(3)
    found = []
    for number in range(1, count + 1):
        comment = draw.choice(["", "fine", "two\nlines", "\n", "a\n\nb\nc", "x = 1"])
        found.append({**run(JobID=str(number), NNodes=str(number)), "Comment": comment})
    return found


@settings(max_examples=25)
@given(st.integers(100, 600))
def test_pieces_of_any_size_give_the_same_runs(piece_bytes):
    text = text_of(many(12), WITH_COMMENT)
    whole, pieces = read(text), read(text, piece_bytes=piece_bytes)
    assert pieces.table.equals(whole.table)
    assert (pieces.rows, pieces.joined, pieces.misread) == (12, whole.joined, [])


@pytest.mark.parametrize("columns", [WITH_COMMENT, [*COLUMNS, "Comment"], ["Comment", *COLUMNS]])
@pytest.mark.parametrize("delimiter", ["|", ";|;", "\t"])
@pytest.mark.parametrize("is_closed", [True, False])
def test_line_breaks_in_a_comment_cost_no_row(columns, delimiter, is_closed):
    text = text_of(many(), columns, delimiter=delimiter, end=delimiter + "\n" if is_closed else "\n")
    if is_closed:
        text = text.replace("Comment\n", f"Comment{delimiter}\n")
    reading = read(text)
    assert reading.table["nodes"].sort().to_list() == list(range(1, 41))
    assert reading.misread == []
    assert reading.joined > 0


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_windows(end):
    assert figures_text(text_of([DAY, run(JobID="2")], end=end)).node_days == 2


def figures_text(text):
    return figures_of(read(text), "f")


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_are_unpacked(packed):
    text = text_of(many(), WITH_COMMENT).encode()
    assert read(packed(text)).table.equals(read(text).table)


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_that_ends_early_is_no_answer(packed):
    with pytest.raises(DamagedError, match="cannot be unpacked beyond line"):
        read(packed(text_of(many(), WITH_COMMENT).encode())[:-20])


@pytest.mark.parametrize(
    "begin, says",
    [
        (b"\x28\xb5\x2f\xfd1234", "zstd"),
        (b"PK\x03\x041234", "zip"),
        ("JobID|State".encode("utf-16"), "UTF-16"),
        (b"JobID|State\nab\ncd\0", "line 3: this is no text"),
    ],
)
def test_what_is_no_text_is_refused(begin, says):
    with pytest.raises(UsageError, match=says):
        read(begin)


def test_names_in_another_encoding_do_no_harm():
    text = text_of([{**DAY, "Comment": "Köln"}], WITH_COMMENT).encode("latin-1")
    assert read(text).table.height == 1


def test_a_byte_order_mark_is_passed_over():
    assert read(b"\xef\xbb\xbf" + text_of([DAY]).encode()).table.height == 1


def test_two_files_one_after_the_other():
    text = text_of([DAY, run(JobID="2")]) + text_of([run(JobID="3")])
    reading = read(text)
    assert (reading.table.height, reading.misread) == (3, [])


def test_a_file_that_ends_in_a_row():
    whole = text_of([DAY, run(JobID="2"), run(JobID="3")])
    reading = read(whole[: whole.rindex("3|COMP") + 20])
    assert reading.table.height == 2
    assert reading.misread[0].examples == ["line 4: '3|COMPLETED|0:0|2026'"]
    assert any("last row may be cut off" in note for note in reading.notes)


def test_a_row_with_too_many_columns_is_not_guessed_at():
    lines = text_of([DAY, run(JobID="2"), run(JobID="3")]).splitlines()
    lines[2] += "|more"
    reading = read("\n".join(lines) + "\n")
    assert reading.table.height == 2
    (misread,) = reading.misread
    assert (misread.rows, misread.examples) == (1, ["line 3: 12 columns"])
    assert reading.rows == 3


def test_the_begin_of_a_row_does_not_take_the_next_one_with_it():
    lines = text_of([DAY, run(JobID="2"), run(JobID="3")]).splitlines()
    lines.insert(2, "9|FAILED|1:0")
    reading = read("\n".join(lines) + "\n")
    assert sorted(reading.table["job"]) == [1, 2, 3]
    assert reading.misread[0].examples == ["line 3: '9|FAILED|1:0'"]


def test_parts_that_never_become_a_row_end_somewhere():
    text = text_of([DAY, run(JobID="2")]) + "9|FAILED|1:0\n" + "x\n" * 300 + text_of([run(JobID="3"), run(JobID="4")])
    reading = read(text)
    assert sorted(reading.table["job"]) == [1, 2, 3, 4]
    assert reading.misread[0].examples == ["line 4: '9|FAILED|1:0'", "line 104: 'x'", "line 204: 'x'"]


def test_values_in_quotes_where_a_comma_stands_between():
    """As a spreadsheet writes it."""
    text = ",".join(COLUMNS) + "\n"
    for number in (1, 2):
        row = {**run(JobID=str(number))}
        text += ",".join(f'"{row[name]}"' if "," in row[name] else row[name] for name in COLUMNS) + "\n"
    answer = figures_text(text)
    assert (answer.runs, answer.gpu_hours, answer.gpu_types[0].name) == (2, 192, "a100")


def test_quotes_mean_nothing_where_sacct_itself_writes():
    rows = [{**run(JobID=str(n)), "JobName": name} for n, name in enumerate(['"', 'a"b', "it's"], start=1)]
    assert read(text_of(rows, ["JobName", *COLUMNS])).table.height == 3


def test_where_most_rows_cannot_be_understood_there_are_no_figures():
    """A comma between the columns, and commas in AllocTRES."""
    with pytest.raises(DamagedError) as refused:
        figures_text(text_of([DAY, run(JobID="2")], delimiter=","))
    assert "2 of 2 rows of jobs.txt" in refused.value.what
    assert "line 2" in refused.value.what


def test_only_a_heading_is_no_mistake():
    answer = figures()
    assert (answer.runs, answer.rate, answer.node_days) == (0, None, 0)


def test_a_line_without_end_is_refused(monkeypatch):
    from lastgood.plan.history import lines

    monkeypatch.setattr(lines, "_LONGEST_LINE_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="line 1: a line of more than 1 MiB"):
        read(b"JobID" + b"|State" * 400_000, piece_bytes=1 << 16)


DAMAGE = [b"|", b"\n", b"\r\n", b"-", b"[", b"n[1-", b"\0", b"\xff\xfe", b"9" * 30, "٣".encode(), b"Unknown", b'"', b""]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(DAMAGE)), min_size=1, max_size=8),
    st.sampled_from([64, 500, 1 << 20]),
)
def test_damage_of_any_kind_gives_an_answer_or_a_clear_refusal(damage, piece_bytes):
    data = bytearray(text_of(many(12), WITH_COMMENT).encode())
    for place, length, put_in in damage:
        begin = int(place * len(data))
        data[begin : begin + length] = put_in
    try:
        answer = figures_of(read(bytes(data), piece_bytes=piece_bytes), "jobs.txt")
    except LastgoodError as refused:
        assert "jobs.txt" in refused.what
        return
    assert csv_of(answer)
    assert all(len(line) <= 80 for line in text_of_answer(answer).splitlines())
    assert answer.rows == answer.runs + answer.step_rows + answer.duplicate_rows + answer.not_started + sum(
        found.rows for found in answer.not_understood
    )
