"""Slurm's commands: what is asked, what is tried again, and what is said when it does not work."""

import os
import signal
import subprocess

import pytest

from lastgood.core.errors import NoSuchJobError, SchedulerError
from lastgood.schedulers.slurm_commands import Answer, SlurmCommands, environment_for_jobs, run_command
from schedulers.fake_slurm import FakeSlurm

AWAY = Answer(1, "", "error: Unable to contact slurm controller (connect failure)\n")
UNCLEAR = Answer(1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n")
TIMEOUT = subprocess.TimeoutExpired("x", 1)
NONE = Answer(0, "", "")


class Played:
    """Answers in turn, by command; a clock that only sleeping and time limits move."""

    def __init__(self, **answers):
        self.answers = {name: list(given) for name, given in answers.items()}
        self.said = []
        self.now = 100.0

    def run(self, words, environment, limit_s):
        self.said.append(list(words))
        if words == ["sbatch", "--version"]:
            return NONE
        answers = self.answers[words[0]]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is TIMEOUT:
            self.now += limit_s
            raise answer
        return answer

    def sleep(self, seconds):
        self.now += seconds

    def commands(self):
        return SlurmCommands({}, run=self.run, clock=lambda: self.now, sleep=self.sleep)

    def times(self, command):
        return sum(words[0] == command and words[1:] != ["--version"] for words in self.said)


@pytest.fixture
def fake(tmp_path):
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def commands(fake):
    return SlurmCommands({"PATH": f"{fake.bin}:{os.environ['PATH']}"})


def test_a_job_is_submitted_with_the_words_given(fake, commands):
    fake.answer("sbatch", "echo '17;cluster'")
    assert commands.submit(["--time=1:00:00", "/a b/batch.sh"]) == "17"
    assert fake.calls("sbatch") == [["--version"], ["--parsable", "--time=1:00:00", "/a b/batch.sh"]]


def test_a_refusal_is_shown_in_sbatchs_words_and_not_tried_again(fake, commands):
    fake.answer("sbatch", "echo 'sbatch: error: invalid partition specified: nix' >&2; exit 1")
    with pytest.raises(SchedulerError, match="invalid partition specified: nix") as caught:
        commands.submit(["-p", "nix", "b.sh"])
    assert caught.value.safe == "nothing was submitted"
    assert len(fake.calls("sbatch")) == 2


def test_without_sbatch_the_error_names_it(fake, commands):
    for command in ("sbatch", "squeue"):
        fake.remove(command)
    lonely = SlurmCommands({"PATH": str(fake.bin)})
    with pytest.raises(SchedulerError, match="cannot run sbatch: No such file") as caught:
        lonely.submit(["b.sh"])
    assert "login node" in caught.value.remedy


def test_a_submission_waits_for_slurmctld():
    played = Played(squeue=[AWAY, NONE], sbatch=[AWAY, AWAY, Answer(0, "7\n", "")])
    assert played.commands().submit(["b.sh"]) == "7"
    assert played.times("sbatch") == 3


def test_a_submission_ends_at_its_limit_and_says_what_is_safe():
    played = Played(squeue=[NONE], sbatch=[AWAY])
    with pytest.raises(SchedulerError, match=r"did not answer for 20 s: .*Unable to contact") as caught:
        played.commands().submit(["b.sh"], limit_s=20)
    assert 115 <= played.now <= 120
    assert "may have been submitted" not in caught.value.safe
    assert "scontrol ping" in caught.value.remedy


@pytest.mark.parametrize("lost", [UNCLEAR, TIMEOUT])
def test_a_job_that_was_taken_although_the_answer_got_lost_is_not_submitted_twice(lost):
    played = Played(squeue=[Answer(0, "5\n6\n", ""), AWAY, Answer(0, "5\n6\n9\n", "")], sbatch=[lost])
    assert played.commands().submit(["b.sh"], limit_s=200) == "9"
    assert played.times("sbatch") == 1


def test_a_job_that_was_not_taken_when_the_answer_got_lost_is_submitted_again():
    played = Played(squeue=[Answer(0, "5\n", "")], sbatch=[UNCLEAR, Answer(0, "9\n", "")])
    assert played.commands().submit(["b.sh"]) == "9"
    assert played.times("sbatch") == 2


def test_where_it_stays_unclear_it_is_said():
    played = Played(squeue=[NONE, AWAY], sbatch=[UNCLEAR])
    with pytest.raises(SchedulerError) as caught:
        played.commands().submit(["b.sh"], limit_s=20)
    assert "may have been submitted" in caught.value.safe
    assert "squeue --me" in caught.value.remedy


def test_a_command_that_hangs_is_ended_at_the_limit(fake, commands):
    fake.answer("scontrol", "exec sleep 60")
    with pytest.raises(SchedulerError, match=r"slurmctld did not answer for 0.2 s: scontrol gave no answer"):
        commands.show_job("7", limit_s=0.2)


def test_a_question_is_asked_again_until_slurmctld_is_back():
    played = Played(scontrol=[AWAY, TIMEOUT, Answer(0, "JobId=7 JobName=x UserId=a(1)\n", "")])
    assert played.commands().show_job("7", limit_s=100)["JobName"] == "x"


def test_a_job_that_does_not_exist():
    played = Played(
        scontrol=[Answer(1, "", "slurm_load_jobs error: Invalid job id specified\n")],
        scancel=[Answer(0, "", "scancel: error: Kill job error on job id 9: Invalid job id specified\n")],
    )
    for ask in ("show_job", "requeue", "cancel", "write_batch_script"):
        with pytest.raises(NoSuchJobError, match="Slurm knows no such job"):
            getattr(played.commands(), ask)("9")
    assert played.times("scontrol") == 3


def test_the_record_of_a_task_of_an_array():
    shown = "".join(
        f"JobId={number} ArrayJobId=5 ArrayTaskId={task} JobName=x UserId=a(1)\n"
        for number, task in [(5, "3-9"), (6, "1"), (7, "2")]
    )
    commands = Played(scontrol=[Answer(0, shown, "")]).commands()
    assert commands.show_job("5_2")["JobId"] == "7"
    assert commands.show_job("6")["ArrayTaskId"] == "1"
    assert commands.show_job("5")["ArrayTaskId"] == "3-9"


def test_configuration_and_partition():
    played = Played(scontrol=[Answer(0, "KillWait                = 30 sec\n", "")])
    assert played.commands().config() == {"KillWait": "30 sec"}
    played = Played(scontrol=[Answer(0, "PartitionName=a GraceTime=10\nPartitionName=b GraceTime=0\n", "")])
    assert [p["GraceTime"] for p in played.commands().partitions()] == ["10", "0"]
    played = Played(scontrol=[Answer(0, "PartitionName=a GraceTime=10\n", "")])
    assert played.commands().partition("a")["GraceTime"] == "10"


def test_a_requeue_is_tried_until_it_gets_through():
    played = Played(scontrol=[AWAY, Answer(1, "", "Unexpected message received for job 7\n"), NONE])
    played.commands().requeue("7")
    assert played.said[-1] == ["scontrol", "requeue", "7"]
    assert played.times("scontrol") == 3


def test_a_requeue_that_was_heard_although_the_answer_got_lost():
    pending = Answer(1, "", "Job is pending execution for job 7\n")
    Played(scontrol=[Answer(1, "", "Unexpected message received for job 7\n"), pending]).commands().requeue("7")


def test_a_requeue_that_is_refused_is_an_error_at_once():
    played = Played(scontrol=[Answer(1, "", "Requested operation is presently disabled for job 7\n")])
    with pytest.raises(SchedulerError, match="presently disabled"):
        played.commands().requeue("7")
    assert played.times("scontrol") == 1


def test_a_job_is_changed_by_name_and_value():
    played = Played(scontrol=[NONE])
    played.commands().update("7", ExcNodeList="n[1-2]", Comment="a b")
    assert played.said == [["scontrol", "update", "JobId=7", "ExcNodeList=n[1-2]", "Comment=a b"]]


def test_to_cancel_a_job_that_has_ended_is_fine():
    ended = "scancel: error: Kill job error on job id 7: Job/step already completing or completed\n"
    Played(scancel=[Answer(1, "", ended)]).commands().cancel("7")


def test_history_asks_only_for_fields_that_this_sacct_has(fake, commands):
    fake.answer("sacct", "echo 'JobID        State  ExitCode Foo'", call=1)
    fake.answer("sacct", "printf 'JobID|State\\n7|REQUEUED\\n7|COMPLETED\\n'", call=2)
    rows, note = commands.history(["7", "8"])
    assert (rows, note) == ([{"JobID": "7", "State": "REQUEUED"}, {"JobID": "7", "State": "COMPLETED"}], "")
    assert fake.calls("sacct")[1][-4:] == ["-o", "JobID,State,ExitCode", "-j", "7,8"]


def test_without_accounting_there_is_a_note(fake, commands):
    fake.answer("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    rows, note = commands.history(["7"])
    assert rows == []
    assert "accounting storage is disabled" in note
    fake.remove("sacct")
    assert "cannot run sacct" in SlurmCommands({"PATH": str(fake.bin)}).history(["7"])[1]
    assert commands.history([]) == ([], "")


def test_a_new_job_gets_nothing_of_the_attempt_and_the_job_that_submit_it():
    ours = {
        "HOME": "/h",
        "SLURM_JOB_ID": "7",
        "SLURM_RESTART_COUNT": "2",
        "SLURM_CONF": "/etc/slurm.conf",
        "LASTGOOD_ATTEMPT": "3",
        "LASTGOOD_MTTI": "6h",
        "SBATCH_ACCOUNT": "a",
    }
    assert environment_for_jobs(ours) == {
        "HOME": "/h",
        "SLURM_CONF": "/etc/slurm.conf",
        "LASTGOOD_MTTI": "6h",
        "SBATCH_ACCOUNT": "a",
    }
    assert environment_for_jobs({"SLURM_X": "1"}) == {"SLURM_X": "1"}


def test_a_signal_to_stop_does_not_end_a_command_in_the_middle_of_its_question():
    """Slurm may send it to every process of the job, as it does to a job that it has just requeued for us."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    answer = run_command(["sh", "-c", "kill -TERM $$; echo answered"], os.environ, 10)
    assert (answer.code, answer.out) == (0, "answered\n")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_command_that_does_not_end_is_ended():
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(["sleep", "60"], os.environ, 0.1)
