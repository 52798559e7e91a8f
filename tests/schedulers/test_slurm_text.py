"""What Slurm 22.05 printed, as values; and that host lists go both ways."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.schedulers.slurm_text import (
    compress_hosts,
    expand_hosts,
    fields,
    parse_codes,
    parse_config,
    parse_exit,
    parse_seconds,
    parse_slurm_duration,
    parse_table,
    parse_time,
    records,
    value_of,
)

JOB = (
    "JobId=12 ArrayJobId=11 ArrayTaskId=1 ArrayTaskThrottle=1 JobName=digits UserId=root(0) GroupId=root(0) "
    "MCS_label=N/A Priority=4294901755 Nice=0 Account=(null) QOS=normal JobState=RUNNING Reason=None Dependency=(null) "
    "Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:05 TimeLimit=1-00:00:00 TimeMin=N/A "
    "EndTime=2026-11-30T20:12:30 Partition=main NodeList=n[1-2] BatchHost=n1 NumNodes=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "TRES=cpu=2,node=2,billing=2,gres/gpu=4 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* OverSubscribe=OK "
    "Command=/runs/my job/batch.sh --lr 0.1 Restarts=9 WorkDir=/runs Comment=lastgood:/runs/my job StdErr=/runs/o "
    "StdIn=/dev/null StdOut=/runs/o Power= "
)


def test_a_job_in_one_line():
    job = fields(JOB)
    assert job["JobId"] == "12"
    assert (job["ArrayJobId"], job["ArrayTaskId"], job["ArrayTaskThrottle"]) == ("11", "1", "1")
    assert job["TRES"] == "cpu=2,node=2,billing=2,gres/gpu=4"
    assert job["CPUs/Task"] == "1"
    assert job["ReqB:S:C:T"] == "0:0:*:*"
    assert job["Restarts"] == "2"
    assert job["Command"] == "/runs/my job/batch.sh --lr 0.1 Restarts=9"
    assert job["Comment"] == "lastgood:/runs/my job"
    assert job["Power"] == ""
    assert value_of(job, "Account") == value_of(job, "Dependency") == value_of(job, "absent") == ""


def test_a_job_over_several_lines():
    text = "JobId=3 JobName=a b\n   UserId=x(1) Requeue=0\n   Command=(null)\n   WorkDir=/w\n"
    assert fields(text) == {
        "JobId": "3",
        "JobName": "a b",
        "UserId": "x(1)",
        "Requeue": "0",
        "Command": "(null)",
        "WorkDir": "/w",
    }


def test_records_a_line_each():
    assert [r["JobId"] for r in records("JobId=1 JobName=a\n\nJobId=2 JobName=b\nNo jobs in the system\n")] == [
        "1",
        "2",
    ]


def test_the_configuration():
    text = (
        "Configuration data as of 2026-11-29T21:00:00\n"
        "AuthInfo                = cred_expire=5\n"
        "RequeueExit             = (null)\n"
        "SLURM_CONF              = /etc/slurm.conf\n"
        "\n"
        "Slurmctld(primary) at host is UP\n"
    )
    assert parse_config(text) == {
        "AuthInfo": "cred_expire=5",
        "RequeueExit": "(null)",
        "SLURM_CONF": "/etc/slurm.conf",
    }


def test_a_table_keeps_empty_cells_and_drops_torn_rows():
    assert parse_table("JobID|State|\n1||\n2|X\n") == [{"JobID": "1", "State": "", "": ""}]
    assert parse_table("JobID|State") == []
    assert parse_table("") == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:01:00", 60),
        ("1-00:00:00", 86400),
        ("2-12", 216000),
        ("1-02:30", 95400),
        ("90", 5400),
        ("90:10", 5410),
        ("36:00:00", 129600),
        ("30 sec", 30),
        ("5 min", 300),
        ("01:02.345", 62),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INFINITE", None),
        ("NONE", None),
        ("-5", None),
        ("1:2:3:4", None),
        ("", None),
        ("²", None),
    ],
)
def test_durations(text, seconds):
    assert parse_slurm_duration(text) == seconds


@given(st.integers(0, 400 * 86400))
def test_a_time_limit_as_slurm_prints_it_is_read_back(seconds):
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    assert parse_slurm_duration(f"{days}-{clock}" if days else clock) == seconds


def test_seconds_without_a_unit():
    assert [parse_seconds(t) for t in ("10", "0", "30 sec", "00:00:10", "UNLIMITED")] == [10, 0, 30, 10, None]


def test_times():
    at = datetime.datetime(2026, 11, 29, 21, 30, 5).timestamp()
    assert parse_time("2026-11-29T21:30:05") == at
    assert [parse_time(t) for t in ("Unknown", "None", "N/A", "")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "codes"), [("75:0", (75, 0)), ("0:9", (0, 9)), ("75", None), ("a:b", None), ("", None)]
)
def test_exit_codes(text, codes):
    assert parse_exit(text) == codes


def test_lists_of_exit_codes():
    assert parse_codes("75") == {75}
    assert parse_codes("75, 100-103,200") == {75, 100, 101, 102, 103, 200}
    assert parse_codes("(null)") == parse_codes("") == parse_codes("x,-1,1-") == frozenset()
    assert max(parse_codes("250-999999999999,300")) == 255


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-4]", ["n1", "n2", "n3", "n4"]),
        ("n[1-2,07-09],login", ["n1", "n2", "n07", "n08", "n09", "login"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("r[1-2]n[3-4]-ib", ["r1n3-ib", "r1n4-ib", "r2n3-ib", "r2n4-ib"]),
        ("(null)", []),
        ("None assigned", None),
        ("", []),
    ],
)
def test_host_lists(text, hosts):
    if hosts is None:
        assert expand_hosts(text) == [text]
    else:
        assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["n[1-4", "n1]", "n[[1]]", "n[a-b]", "n1,,n2", "n[]", "n[1-99999999999]", "n[1-9999]m[1-9999]"]
)
def test_what_is_no_host_list(text):
    with pytest.raises(ValueError, match="host"):
        expand_hosts(text)


names = st.builds(
    lambda prefix, number: prefix + number,
    st.sampled_from(["n", "gpu-", "r2c"]),
    st.from_regex(r"[0-9]{0,4}", fullmatch=True),
)


@given(st.lists(names, unique=True))
def test_a_compressed_host_list_names_the_same_hosts(hosts):
    assert sorted(expand_hosts(compress_hosts(hosts))) == sorted(hosts)


@given(st.text(max_size=60), st.text("nN=[]:|-,0123456789 \n", max_size=60))
def test_no_text_upsets_the_parsers(anything, likely):
    for text in (anything, likely):
        fields(text), records(text), parse_config(text), parse_table(text), parse_slurm_duration(text)
        parse_seconds(text), parse_time(text), parse_exit(text), parse_codes(text)
