"""What a cluster's settings say, in each of the layouts that people have them in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.policy import Policy, where
from lastgood.audit.source import Source

CONF = """\
# slurm.conf of a cluster
ClusterName=c1   SlurmctldHost=head
jobrequeue = 0   # not here
#KillWait=5
KillWait=30
KillWait=60
SlurmctldParameters="enable_configless, idle_on_node_suspend"
SchedulerParameters=bf_interval=1,\\
  sched_interval=1
NodeName=n[1-4] CPUs=2 KillWait=1
PartitionName=DEFAULT GraceTime=60 PriorityTier=1
PartitionName=low Nodes=n[1-4] Default=YES \\
    MaxTime=1-00:00:00
PartitionName=high Nodes=n[1-4] PriorityTier=10 GraceTime=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""

DUMP = """\
Configuration data as of 2026-11-29T21:00:00
AccountingStorageType   = accounting_storage/slurmdbd
JobRequeue              = 1
KillWait                = 30 sec
PreemptExemptTime       = 00:30:00
PreemptMode             = GANG,SUSPEND
PreemptType             = preempt/qos
RequeueExit             = (null)
SlurmctldHost[0]        = head(10.0.0.1)
SLURM_VERSION           = 23.11.4
"""
DUMP_END = """
Cgroup Support Configuration:
KillWait                = no

Slurmctld(primary) at head is UP
"""

PARTITIONS = """\
PartitionName=low
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=120 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=2-00:00:00 MinNodes=0 LLN=NO
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=REQUEUE
   State=UP TotalCPUs=8 TotalNodes=4 SelectTypeParameters=NONE
   TRES=cpu=8,mem=8000M,node=4

PartitionName=high
   AllowGroups=ALL Default=NO GraceTime=0 MaxTime=UNLIMITED
   PriorityTier=10 PreemptMode=REQUEUE State=UP TotalCPUs=8 TotalNodes=4
"""

QOS = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags
normal|0|00:00:00|scavenger||cluster|
scavenger|0|00:02:00||00:10:00|requeue|
"""


def policy_of(*texts: str, **included: str) -> Policy:
    sources = [Source(f"file{i}", text.encode()) for i, text in enumerate(texts)]
    return Policy(
        sources,
        lambda near, path: Source(path, included[path].encode()) if path in included else None,
    )


def test_a_file_with_all_that_the_grammar_allows() -> None:
    policy = policy_of(CONF)
    assert policy.get("ClusterName") == "c1" and policy.get("SlurmctldHost") == "head"
    assert policy.is_true("JobRequeue") is False
    assert policy.kill_wait_s == 60, "the last one wins, and a node's line is no setting of the cluster"
    assert policy.get("SlurmctldParameters") == "enable_configless, idle_on_node_suspend"
    assert policy.get("SchedulerParameters") == "bf_interval=1,"
    assert policy.partition("low", "MaxTime") == "1-00:00:00"
    assert policy.default_partition == "low"
    assert policy.get("RequeueExit") == "" and policy.get("MinJobAge") == "300", "defaults of what is not there"
    assert policy.is_complete and policy.is_whole_cluster


def test_defaults_of_partitions_hold_for_the_lines_below() -> None:
    policy = policy_of(CONF)
    assert (policy.partition("low", "GraceTime"), policy.partition("high", "GraceTime")) == ("60", "0")
    assert policy.partition("other", "GraceTime") is None
    assert policy_of("PartitionName=a\n").partition("a", "GraceTime") == "0"


def test_what_continues_a_line_and_what_does_not() -> None:
    assert policy_of("RequeueExit=75 \\\n  KillWait=9\n").kill_wait_s == 9
    assert policy_of("# a comment \\\nKillWait=9\n").kill_wait_s == 9
    assert policy_of("KillWait=9 # is \\\nJobRequeue=0\n").is_true("JobRequeue") is False
    assert policy_of("KillWait=9 \\").kill_wait_s == 9
    assert policy_of("SchedulerParameters=bf_interval=1,\\\nsched_interval=2\n").get("SchedulerParameters") == (
        "bf_interval=1,sched_interval=2"
    ), "what follows the backslash goes on in the middle of a word"


def test_what_is_no_setting_is_said_with_its_place() -> None:
    (problem,) = policy_of("KillWait=9\n  please do not edit\n").problems
    assert "please do not edit" in problem.message and problem.is_partial
    assert problem.span is not None and (problem.span.line, problem.span.column) == (2, 3)


def test_a_file_full_of_other_things_is_not_said_line_by_line() -> None:
    problems = policy_of("KillWait=9\n" + "what is this\n" * 500).problems
    assert len(problems) == 11 and "490 more" in problems[-1].message


def test_places_of_settings() -> None:
    setting = policy_of("A=1\n  KillWait = 30 # x\n").setting("killwait")
    assert setting is not None
    assert (setting.span.line, setting.span.column, setting.span.end_column) == (2, 3, 16)
    continued = policy_of("A=1 \\\n  KillWait=30\n").setting("KillWait")
    assert continued is not None and (continued.span.line, continued.span.column) == (2, 3)


def test_an_included_file_counts_where_it_is_included() -> None:
    main = "ClusterName=c1\nKillWait=1\nInclude %c.conf\n#include no.conf\n"
    policy = policy_of(main, **{"c1.conf": "KillWait=2\nRequeueExit=75\n"})
    assert policy.kill_wait_s == 2 and policy.requeue_codes == {75}
    assert policy.is_complete and not policy.problems
    setting = policy.setting("KillWait")
    assert setting is not None and setting.path == "c1.conf"


@pytest.mark.parametrize("keyword", ["Include", "include", "INCLUDE"])
def test_a_missing_included_file_is_said_and_leaves_defaults_unknown(keyword: str) -> None:
    policy = policy_of(f"ClusterName=c1\nKillWait=9\n{keyword} /etc/slurm/nodes.conf\n")
    assert "/etc/slurm/nodes.conf" in policy.problems[0].message
    assert policy.kill_wait_s == 9
    assert policy.get("RequeueExit") is None and not policy.is_complete


def test_files_that_include_each_other_come_to_an_end() -> None:
    policy = policy_of("Include b\n", a="Include b\nKillWait=3\n", b="Include a\nJobRequeue=0\n")
    assert policy.kill_wait_s == 3 and policy.is_true("JobRequeue") is False
    assert len(policy.problems) == 1


def test_a_template_leaves_open_what_its_user_fills_in() -> None:
    policy = policy_of("ClusterName={{ name }}\nSlurmctldHost=head\nKillWait={{ wait }}\nMinJobAge=5\n")
    assert policy.kill_wait_s is None and policy.get("MinJobAge") == "5" and policy.get("RequeueExit") == ""
    policy = policy_of("SlurmctldHost=head\n{% if requeue %}\nJobRequeue=0\n{% endif %}\nKillWait=9\n")
    assert policy.is_true("JobRequeue") is None and policy.kill_wait_s == 9
    assert not policy.is_complete and not policy.problems


def test_what_scontrol_shows_of_the_configuration() -> None:
    policy = policy_of(DUMP + DUMP_END)
    assert policy.kill_wait_s == 30, "a plugin's section does not change it"
    assert policy.get("RequeueExit") == "" and policy.requeue_codes == frozenset()
    assert policy.exempt_s == 1800 and policy.has_gang
    assert policy.is_complete and policy.is_whole_cluster
    assert policy.is_true("KillOnBadExit") is False, "a setting that this version does not have"


def test_a_dump_that_stops_early_does_not_say_what_it_leaves_out() -> None:
    policy = policy_of(DUMP)
    assert policy.is_true("JobRequeue") is True
    assert policy.get("KillOnBadExit") is None and not policy.is_complete


@pytest.mark.parametrize("is_on_one_line", [False, True])
def test_what_scontrol_shows_of_partitions(is_on_one_line: bool) -> None:
    text = PARTITIONS
    if is_on_one_line:
        text = "\n".join(" ".join(record.split()) for record in PARTITIONS.split("\n\n")) + "\n"
    policy = policy_of(text)
    assert list(policy.partitions) == ["low", "high"]
    assert policy.partition("low", "GraceTime") == "120" and policy.partition("high", "MaxTime") == "UNLIMITED"
    assert policy.partition("low", "QoS") == "" and policy.partition("low", "TRES") == "cpu=8,mem=8000M,node=4"
    assert policy.default_partition == "low"
    assert policy.get("KillWait") is None and not policy.settings


@pytest.mark.parametrize("join", [False, True])
def test_a_live_cluster_is_several_texts_or_one(join: bool) -> None:
    texts = [DUMP + DUMP_END, PARTITIONS, QOS]
    policy = policy_of("\n".join(texts)) if join else policy_of(*texts)
    assert policy.kill_wait_s == 30 and policy.partition("low", "GraceTime") == "120"
    (found,) = policy.preemptions
    assert (found.kind, found.name, found.mode, found.grace_s) == ("QOS", "scavenger", "REQUEUE", 120)


def test_only_partitions_below_another_one_are_preempted() -> None:
    (found,) = policy_of(CONF).preemptions
    assert (where([found]), found.mode, found.grace_s) == ("partition low", "REQUEUE", 60)
    policy = policy_of("PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nPartitionName=a\nPartitionName=b\n")
    assert policy.preemptions == []


@pytest.mark.parametrize(
    ("low", "high", "is_preempted"),
    [
        ("n[1-4]", "n[4-8]", True),
        ("n[1-4]", "n[5-8]", False),
        ("ALL", "n1", True),
        ("n[1-4", "n[5-8]", True),
        ("n[1-2],g1", "g[1-3]", True),
    ],
)
def test_only_jobs_on_the_same_nodes_are_preempted(low: str, high: str, is_preempted: bool) -> None:
    text = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    text += f"PartitionName=low Nodes={low}\nPartitionName=high Nodes={high} PriorityTier=5\n"
    assert bool(policy_of(text).preemptions) is is_preempted


def test_nobody_is_preempted_where_nothing_says_so() -> None:
    assert policy_of("PreemptMode=CANCEL\n").preemptions == []
    assert policy_of(PARTITIONS).preemptions == []


def test_preemption_by_qos_of_which_nothing_is_known() -> None:
    (found,) = policy_of("PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n").preemptions
    assert (where([found]), found.mode, found.grace_s) == ("the cluster", "SUSPEND", None)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    policy = Policy([Source("x", data)])
    assert policy.preemptions is not None and policy.place.span.line >= 1
    for setting in policy.settings.values():
        assert setting.span.line <= policy.source.line_count


KEYS = st.sampled_from(["JobRequeue", "KillWait", "RequeueExit", "PreemptMode", "SlurmdTimeout"])
VALUES = st.text("abcXYZ0123456789,-/", min_size=1, max_size=12)


@given(st.lists(st.tuples(KEYS, VALUES, st.booleans(), st.booleans()), min_size=1))
def test_the_last_of_each_setting_is_read_however_it_is_laid_out(rows: list[tuple[str, str, bool, bool]]) -> None:
    text, last = "", {}
    for name, value, is_quoted, goes_on in rows:
        text += f"{name.lower() if goes_on else name}=" + (f'"{value}"' if is_quoted else value)
        text += " \\\n" if goes_on else " # a comment\n"
        last[name] = value
    policy = policy_of(text)
    assert {setting.name.lower(): setting.value for setting in policy.settings.values()} == {
        name.lower(): value for name, value in last.items()
    }
    assert not policy.problems
