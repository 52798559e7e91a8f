"""Each fault at least once in a real job under the real launcher, and what was measured of it."""

import sys
from pathlib import Path

import pytest

from drill.drills import HERE, Drill, drill

pytestmark = pytest.mark.slow

STEPS = 900
FAULTS = (
    "kill-keeper",
    "kill-launcher",
    "freeze,limit=20s",
    "exit,code=17",
    "kill-rank@phase=commit",
    "kill-rank@phase=restore",
    "truncate",
    "half-delete",
    "zero",
    "terminate,grace=32s",
    "kill-group@phase=save",
)


@pytest.fixture(scope="module")
def all_faults(tmp_path_factory: pytest.TempPathFactory) -> Drill:
    """One drill with one of each."""
    given = [word for fault in FAULTS for word in ("--fault", fault)]
    # Its last hundred steps wait for the last fault, which strikes in a save.
    command = (sys.executable, "counting.py", STEPS, 0.01, 100)
    return drill(HERE / "counting.py", tmp_path_factory.mktemp("all"), "--seed", 1, *given, "--", *command)


def test_the_job_comes_through_all_of_them(all_faults: Drill) -> None:
    told = [(fault.fault, fault.verdict, fault.reason) for fault in all_faults.answer.faults]
    assert all_faults.answer.verdict == "pass", told
    assert all_faults.code == 0
    assert len(told) == len(FAULTS)
    assert all_faults.answer.disturbed is not None
    assert (all_faults.answer.disturbed.exit_code, all_faults.answer.disturbed.final_step) == (0, STEPS)


def test_each_goes_on_from_the_checkpoint_before_it_or_a_newer_one(all_faults: Drill) -> None:
    for fault in all_faults.answer.faults:
        if fault.fault.startswith("kill-keeper"):
            assert (fault.resumed_step, fault.detected_s) == (None, None)
            continue
        assert fault.checkpoint_step is not None
        assert fault.resumed_step is not None
        assert fault.resumed_step >= fault.checkpoint_step, fault.fault
        if fault.reached_step is not None:
            assert fault.lost_steps == fault.reached_step - fault.resumed_step
        assert fault.restarted_s is not None
        if fault.resumed_step == STEPS:
            # It was hit in its last save: no step was left to be done.
            continue
        assert fault.first_step_s is not None
        assert fault.restarted_s <= fault.first_step_s


def test_phases_are_hit_while_they_last(all_faults: Drill) -> None:
    caught = {fault.fault: fault.caught for fault in all_faults.answer.faults if "phase" in fault.fault}
    assert "no manifest" in caught["kill-rank@phase=commit"]
    assert "looks for its checkpoint" in caught["kill-rank@phase=restore"]
    assert "save" in caught["kill-group@phase=save"]


def test_who_saw_the_end_is_told(all_faults: Drill) -> None:
    ends = {fault.fault.partition("@")[0]: fault.ended_as for fault in all_faults.answer.faults}
    assert ends["freeze,limit=20s"] == "hang"
    assert ends["exit,code=17"] == "program error"
    assert ends["terminate,grace=32s"] == "preempted"
    assert ends["kill-rank"] == ends["kill-group"] == "killed"
    assert all_faults.fault("freeze").detected_s is not None
    assert (all_faults.fault("freeze").detected_s or 0) > 15


def test_damaged_checkpoints_are_passed_over(all_faults: Drill) -> None:
    for name in ("truncate", "half-delete", "zero"):
        fault = all_faults.fault(name)
        assert fault.paths
        assert fault.reason.startswith("passed "), fault.reason


def test_terminate_saves_the_last_step_and_kills_lose_less_than_an_interval(all_faults: Drill) -> None:
    assert all_faults.fault("terminate").lost_steps == 0
    assert all_faults.fault("kill-launcher").lost_steps == 0
    # It saves each tenth step, and what is in memory counts.
    assert (all_faults.fault("exit").lost_steps or 0) <= 20


def test_what_the_faults_need_of_the_launcher_is_said(all_faults: Drill) -> None:
    assert "the faults need: lastgood run --hang-timeout 20s --restart-on 17 --grace 27s" in all_faults.said


def test_each_injection_and_healing_is_on_record(all_faults: Drill) -> None:
    kinds = [event.kind for event in all_faults.journal]
    injected = [event for event in all_faults.journal if event.kind == "injected"]
    assert len(injected) == len(FAULTS)
    assert [event.data["number"] for event in all_faults.journal if event.kind == "planned"] == list(range(1, 12))
    for event in injected:
        assert event.data["what"]
        before = next(
            e for e in all_faults.journal if e.kind == "injecting" and e.data["number"] == event.data["number"]
        )
        assert before.at <= event.data["harm_at"] <= event.at
    assert sorted(e.data["number"] for e in all_faults.journal if e.kind == "healed") == list(range(1, 12))
    assert kinds[-1] in ("healed", "ended", "taken_down")


KILL_ALL_THERE = """\
import psutil, sys
from contextlib import suppress
for process in psutil.process_iter():
    with suppress(psutil.Error):
        if process.cwd() == sys.argv[1] + "/drill/drill/work":
            process.kill()
open(sys.argv[1] + "/is-down", "w").write(sys.argv[2])
"""


def test_a_node_goes_down_and_comes_up_by_the_sites_own_commands(tmp_path: Path) -> None:
    # What a dead node is to the job: all that ran there is gone at once, the launcher, too.
    (tmp_path / "down.py").write_text(KILL_ALL_THERE)
    done = drill(
        HERE / "counting.py", tmp_path, "--quick", "--fault", "node,node=n7@step=50",
        "--node-down", f"{sys.executable} {tmp_path}/down.py {tmp_path} {{node}}",
        "--node-up", f"mv {tmp_path}/is-down {tmp_path}/was-down-{{node}}",
        "--", sys.executable, "counting.py", 400,
    )  # fmt: skip
    assert (tmp_path / "was-down-n7").read_text() == "n7"
    assert done.answer.faults[0].what == "node n7 was taken down"
    assert done.answer.verdict == "pass", done.answer


def test_a_node_that_does_not_come_up_is_said(tmp_path: Path) -> None:
    (tmp_path / "down.py").write_text(KILL_ALL_THERE)
    done = drill(
        HERE / "counting.py", tmp_path, "--quick", "--fault", "node,node=n7@step=50",
        "--node-down", f"{sys.executable} {tmp_path}/down.py {tmp_path} {{node}}", "--node-up", "false",
        "--", sys.executable, "counting.py", 400,
    )  # fmt: skip
    assert (done.code, done.answer.verdict) == (3, "unknown")
    assert "--node-up for n7 failed: exit code 1" in done.answer.reason
    assert not done.answer.faults[0].is_undone


def test_the_bill_of_a_job_is_measured(tmp_path: Path) -> None:
    done = drill(
        HERE / "counting.py", tmp_path, "--bill", "--seed", 3, "--fault", "kill-rank@step=50", "--fault", "flip-bit@step=100",
        # So long that the same faults, started again only, fit into five times that on a busy machine.
        "--", sys.executable, "counting.py", 150, 0.015,
    )  # fmt: skip
    assert done.answer.verdict == "pass", done.answer
    bill = done.answer.bill
    assert bill is not None
    assert (len(bill.bare_s), len(bill.protected_s)) == (3, 3)
    assert bill.overhead is not None
    assert bill.ettr_first_order is not None
    assert bill.interval_steps == 10
    again, zero = bill.others
    assert (again.way, zero.way) == ("started again", "from nothing")
    assert again.faults == zero.faults == 2
    assert again.took_s is not None


def test_the_example_of_the_readme_comes_through_a_kill(tmp_path: Path) -> None:
    text = (HERE.parents[1] / "examples" / "numpy_loop.py").read_text()
    a_step = "        run.log(loss=loss)\n"
    assert a_step in text
    example = tmp_path / "numpy_loop.py"
    # Its thousand steps are over in a moment.
    waits = "        if run.step == 600:\n            __import__('waiting').until_struck()\n"
    example.write_text(text.replace(a_step, a_step + waits))
    kill = "kill-rank,which=last@step=300"
    done = drill(example, tmp_path, "--quick", "--fault", kill, "--", sys.executable, example.name, "--epochs", 10)
    assert done.answer.verdict == "pass", done.answer
    assert done.answer.faults[0].resumed_from == "memory"
