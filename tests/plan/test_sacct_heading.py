"""The first line of sacct's output: what it tells, and a clear refusal of what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.plan.history.heading import ASK, read_heading
from lastgood.plan.history.heading import COLUMNS as KNOWN
from plan.sacct_file import COLUMNS, DAY, figures, read, text_of


@given(st.text(st.sampled_from("|;,~^:%#@ \t"), min_size=1, max_size=4).filter(str.strip), st.booleans())
def test_what_stands_between_the_names_is_seen(delimiter, is_closed):
    heading = read_heading(delimiter.join(COLUMNS) + (delimiter if is_closed else ""), "f")
    assert (heading.delimiter, heading.names, heading.is_closed) == (delimiter, tuple(COLUMNS), is_closed)


def test_a_delimiter_of_letters_has_to_be_said():
    heading = read_heading("JobIDxxStatexxElapsedxxNNodes", "f", "xx")
    assert heading.places == {"job": 0, "state": 1, "elapsed": 2, "n_nodes": 3}


def test_a_tab_is_no_table_for_people():
    assert read_heading("JobID\tState\tElapsed\tNNodes", "f").delimiter == "\t"


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "empty"),
        ("\n\n", "line 1: an empty line"),
        ("1|COMPLETED|3600|1\n", "line 1: a row in place of the heading"),
        ("1_2.batch|COMPLETED|3600|1\n", "a row in place of the heading"),
        ('{"jobs": []}\n', "JSON"),
        ("sacct: error: Slurm accounting storage is disabled\n", "no heading of sacct"),
        ("JobID    State      Elapsed NNodes\n-------- ---------- ------- ------\n", "for people"),
        ("JobID|State;Elapsed|NNodes\n", "--delimiter"),
        ("JobID|State|State|Elapsed|NNodes\n", "'State' is there twice"),
        ("JobID|Elapsed|NNodes\n", "no column State"),
        ("JobID|State|NNodes\n", "no column ElapsedRaw (or Elapsed, or Start and End)"),
        ("JobID|State|Start|NNodes\n", "no column ElapsedRaw"),
        ("JobID|State|Elapsed\n", "no column NNodes"),
        ("State|Elapsed|NNodes|User\n", "no column JobID"),
        ("\x1b[31m\n", "\\x1b[31m"),
    ],
)
def test_what_is_no_heading_is_refused_with_the_way_out(text, says):
    with pytest.raises(UsageError) as refused:
        read(text)
    assert says in str(refused.value)
    assert refused.value.safe == "nothing was counted"
    assert refused.value.remedy
    assert refused.value.what.startswith("jobs.txt")


def test_the_way_out_is_a_command_with_all_columns():
    wanted = {name.lower() for name in ASK.rpartition(" ")[2].split(",")}
    assert wanted <= set(KNOWN)
    assert not read(text_of([DAY], ASK.rpartition(" ")[2].split(","))).notes


@pytest.mark.parametrize(
    "lacking, says",
    [
        (["Submit", "Start"], "no attempts"),
        (["End"], "no End"),
        (["AllocTRES"], "no GPU-hours"),
        (["Partition"], "nothing by partition"),
        (["NodeList"], "nothing by node"),
        (["ExitCode"], "no ExitCode"),
    ],
)
def test_a_figure_that_falls_away_is_said(lacking, says):
    answer = figures(DAY, columns=[name for name in COLUMNS if name not in lacking])
    assert [note for note in answer.notes if says in note]
    assert answer.node_days == 1


def test_columns_in_any_order_and_with_others_between():
    order = [*reversed(COLUMNS), "Comment"]
    answer = figures({**DAY, "Comment": "x"}, columns=order)
    assert (answer.node_days, answer.gpu_hours, answer.partitions[0].name) == (1, 96, "gpu")
