"""How an attempt ended, from evidence as it really looks."""

import pytest

from lastgood.core.outcome import Evidence, Outcome, classify, classify_raised

TRACEBACK = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
{}
"""

TORCHRUN_KILLED = """\
[rank1]: Traceback (most recent call last):
[rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234
W1129 torch/distributed/elastic/multiprocessing/api.py] Sending process 42 closing signal SIGTERM
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_12:00:00
  host      : n1
  rank      : 0 (local_rank: 0)
  exitcode  : {code} (pid: 4711)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def outcome(**evidence: object) -> Outcome:
    return classify(Evidence(**evidence)).outcome


def test_exit_code_0_is_finished() -> None:
    assert outcome(exit_code=0) is Outcome.FINISHED
    assert outcome(exit_code=0, is_finished=True, step=10, total_steps=10) is Outcome.FINISHED


def test_exit_code_0_before_the_last_step_is_the_programs_decision_and_says_so() -> None:
    ending = classify(Evidence(exit_code=0, step=5, total_steps=10))
    assert ending.outcome is Outcome.FINISHED
    assert "after step 5 of 10" in ending.reason


def test_a_program_of_ours_that_ends_before_its_last_step_has_to_say_that_it_is_done() -> None:
    ending = classify(Evidence(exit_code=0, step=5, total_steps=10, has_library=True))
    assert (ending.outcome, ending.exit_code) == (Outcome.PROGRAM_ERROR, 1)
    assert "after step 5 of 10, and run.finish() was not called" in ending.reason
    said = Evidence(exit_code=0, step=5, total_steps=10, has_library=True, is_finished=True)
    assert classify(said).outcome is Outcome.FINISHED
    assert outcome(exit_code=0, step=5, has_library=True) is Outcome.FINISHED


def test_75_asks_to_be_run_again() -> None:
    assert outcome(exit_code=75) is Outcome.PREEMPTED


@pytest.mark.parametrize("number", [6, 9, 11, 15])
def test_a_signal_that_nobody_here_sent_may_pass(number: int) -> None:
    ending = classify(Evidence(signal=number))
    assert ending.outcome is Outcome.KILLED
    assert ending.exit_code == 128 + number
    assert "SIG" in ending.reason


@pytest.mark.parametrize("evidence", [{"exit_code": 130}, {"signal": 2}])
def test_sigint_that_went_past_the_launcher_is_still_somebodys_wish(evidence: dict[str, int]) -> None:
    assert outcome(**evidence) is Outcome.CANCELLED


def test_a_signal_below_a_shell_is_seen_in_its_exit_code() -> None:
    assert outcome(exit_code=137, log_tail="bash: line 1:  4711 Killed  python train.py\n") is Outcome.KILLED


def test_memory_killed_by_the_kernel_is_told_from_other_kills() -> None:
    assert outcome(signal=9, oom_kills=1) is Outcome.OUT_OF_MEMORY
    assert outcome(signal=9, oom_kills=0) is Outcome.KILLED
    assert outcome(exit_code=0, oom_kills=1) is Outcome.FINISHED


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
        "RuntimeError: CUDA error: out of memory",
        "MemoryError",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
    ],
)
def test_out_of_memory_is_read_from_the_output(line: str) -> None:
    assert outcome(exit_code=1, log_tail=TRACEBACK.format(line)) is Outcome.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.",
        "RuntimeError: [/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:32",
        "[rank0]:[E1129] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)",
        "RuntimeError: Application timeout caused pair closure",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60s",
    ],
)
def test_a_communication_failure_is_told_from_a_program_error(line: str) -> None:
    assert outcome(exit_code=1, log_tail=TRACEBACK.format(line)) is Outcome.COMMUNICATION


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 28] No space left on device: 'out/x'",
        "OSError: [Errno 5] Input/output error",
        "OSError: [Errno 122] Disk quota exceeded",
    ],
)
def test_a_storage_failure_is_told_from_a_program_error(line: str) -> None:
    assert outcome(exit_code=1, log_tail=TRACEBACK.format(line)) is Outcome.STORAGE_ERROR


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
        (
            "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=7.batch cgroup. Some of your processes may have "
            "been killed by the cgroup out-of-memory handler."
        ),
        "srun: error: n2: task 1: Out Of Memory",
    ],
)
def test_what_slurm_says_of_memory_is_out_of_memory(line: str) -> None:
    assert outcome(exit_code=137, log_tail=f"step 3\n{line}\n") is Outcome.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "pynvml.NVMLError_GpuIsLost: GPU is lost",
    ],
)
def test_a_device_that_failed_is_no_program_error(line: str) -> None:
    assert outcome(exit_code=1, log_tail=TRACEBACK.format(line)) is Outcome.HARDWARE_ERROR
    assert outcome(exit_code=1, exceptions=(line,)) is Outcome.HARDWARE_ERROR
    assert classify_raised((line,)).outcome is Outcome.HARDWARE_ERROR


def test_the_device_that_failed_wins_over_other_ranks_reactions() -> None:
    text = TRACEBACK.format("[rank1]: RuntimeError: Connection closed by peer [127.0.0.1]:4242")
    text += TRACEBACK.format("[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    assert outcome(exit_code=1, log_tail=text) is Outcome.HARDWARE_ERROR


@pytest.mark.parametrize(
    "evidence",
    [
        {"signal": 7},
        {"exit_code": 135},
        {"exit_code": 137, "log_tail": "srun: error: n2: task 1: Bus error\nsrun: error: n1: task 0: Killed\n"},
    ],
)
def test_a_bus_error_may_be_the_nodes(evidence: dict[str, object]) -> None:
    assert outcome(**evidence) is Outcome.HARDWARE_ERROR


@pytest.mark.parametrize(
    "line",
    [
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
            "workers are out of shared memory."
        ),
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ],
)
def test_what_is_mostly_the_programs_own_is_a_program_error(line: str) -> None:
    assert outcome(exit_code=1, log_tail=TRACEBACK.format(line)) is Outcome.PROGRAM_ERROR


def test_a_requeue_for_a_node_that_failed_is_a_node_failure() -> None:
    said = "srun: error: Node failure on n2\n"
    requeued = "requeued by Slurm"
    assert outcome(exit_code=137, interruption=requeued, log_tail=said) is Outcome.NODE_FAILURE
    assert outcome(exit_code=75, interruption=requeued) is Outcome.PREEMPTED
    assert outcome(exit_code=137, interruption="scancel", log_tail=said) is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("srun: error: n2: task 1: Killed", Outcome.KILLED),
        ("srun: error: n2: tasks 1-3: Segmentation fault (core dumped)", Outcome.KILLED),
        ("srun: error: n2: task 1: Bus error", Outcome.HARDWARE_ERROR),
        ("srun: error: n2: task 1: Out Of Memory", Outcome.OUT_OF_MEMORY),
        ("srun: error: n2: task 1: Terminated", Outcome.COMMUNICATION),
        ("srun: error: n2: task 1: Exited with exit code 87\nsrun: error: n1: task 0: Killed", Outcome.COMMUNICATION),
    ],
)
def test_of_ranks_that_end_after_each_other_the_first_one_tells_why(first: str, expected: Outcome) -> None:
    said = f"{first}\nsrun: error: n1: task 0: Exited with exit code 87\n"
    raised = ("RankTimeoutError: rank 0 waited for rank 1 in vain",)
    ending = classify(Evidence(exit_code=137, log_tail=said, exceptions=raised, has_library=True))
    assert ending.outcome is expected
    if expected is Outcome.KILLED:
        assert first in ending.reason


def test_srun_that_ends_with_0_after_a_node_has_failed_proves_nothing() -> None:
    said = "srun: error: Node failure on n2\nsrun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n"
    assert outcome(exit_code=0, log_tail=said) is Outcome.NODE_FAILURE
    assert outcome(exit_code=0, log_tail=said, is_finished=True) is Outcome.FINISHED


def test_one_that_is_fenced_says_so_whatever_ends_its_allocation() -> None:
    fenced = Evidence(exit_code=81, interruption="requeued by Slurm", has_library=True)
    assert (classify(fenced).outcome, classify(fenced).exit_code) == (Outcome.REFUSED, 81)


def test_an_exception_is_a_program_error_and_is_quoted() -> None:
    ending = classify(Evidence(exit_code=1, log_tail=TRACEBACK.format("KeyError: 'lr'")))
    assert ending.outcome is Outcome.PROGRAM_ERROR
    assert "KeyError: 'lr'" in ending.reason
    assert ending.exit_code == 1


def test_the_cause_wins_over_other_ranks_reactions() -> None:
    text = TRACEBACK.format("[rank1]: RuntimeError: Connection closed by peer [127.0.0.1]:4242")
    text += TRACEBACK.format("[rank0]: KeyError: 'lr'")
    ending = classify(Evidence(exit_code=1, log_tail=text))
    assert ending.outcome is Outcome.PROGRAM_ERROR
    assert "KeyError" in ending.reason


def test_what_the_program_reported_itself_counts_even_if_its_output_is_lost() -> None:
    ending = classify(Evidence(exit_code=1, exceptions=("ValueError: bad batch",)))
    assert (ending.outcome, "bad batch" in ending.reason) == (Outcome.PROGRAM_ERROR, True)
    assert outcome(exit_code=1, exceptions=("OutOfMemoryError: CUDA out of memory.",)) is Outcome.OUT_OF_MEMORY


def test_an_unknown_exit_code_without_any_text_is_a_program_error() -> None:
    assert outcome(exit_code=3) is Outcome.PROGRAM_ERROR


class TestTorchrun:
    def test_a_killed_worker_is_no_program_error(self) -> None:
        ending = classify(Evidence(exit_code=1, log_tail=TORCHRUN_KILLED.format(code=-9)))
        assert (ending.outcome, ending.exit_code) == (Outcome.KILLED, 137)

    def test_workers_that_saved_count_as_saved(self) -> None:
        assert outcome(exit_code=1, log_tail=TORCHRUN_KILLED.format(code=75)) is Outcome.PREEMPTED

    def test_a_refused_start_of_a_worker_counts_as_refused(self) -> None:
        ending = classify(Evidence(exit_code=1, log_tail=TORCHRUN_KILLED.format(code=80), has_library=True))
        assert (ending.outcome, ending.exit_code) == (Outcome.REFUSED, 80)

    def test_the_report_of_an_earlier_attempt_in_a_program_that_went_on_does_not_count(self) -> None:
        assert outcome(exit_code=0, log_tail=TORCHRUN_KILLED.format(code=-9)) is Outcome.FINISHED


@pytest.mark.parametrize(
    ("code", "expected"),
    [(80, Outcome.REFUSED), (78, Outcome.REFUSED), (74, Outcome.STORAGE_ERROR), (85, Outcome.STORAGE_ERROR)],
)
def test_our_own_codes_are_known_where_our_library_ran_and_only_there(code: int, expected: Outcome) -> None:
    assert outcome(exit_code=code, has_library=True) is expected
    ending = classify(Evidence(exit_code=code))
    assert (ending.outcome, ending.reason, ending.exit_code) == (Outcome.PROGRAM_ERROR, f"exit code {code}", code)


def test_what_our_library_said_is_the_reason() -> None:
    said = "the job has done 10 steps already; steps(5) would go backwards\n  safe now: nothing was changed"
    ending = classify(Evidence(exit_code=2, exceptions=(f"UsageError: {said}",), has_library=True))
    assert (ending.outcome, ending.reason, ending.exit_code) == (Outcome.REFUSED, said.split("\n")[0], 2)


def test_an_error_of_ours_that_the_program_caught_is_not_its_end() -> None:
    ending = classify(Evidence(exit_code=3, exceptions=("UsageError: so it was",), has_library=True))
    assert (ending.outcome, ending.exit_code) == (Outcome.PROGRAM_ERROR, 3)


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        ("KeyError: 'lr'", Outcome.PROGRAM_ERROR),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB", Outcome.OUT_OF_MEMORY),
        ("RuntimeError: [/__w/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Oh", Outcome.COMMUNICATION),
        ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1", Outcome.COMMUNICATION),
        ("OSError: [Errno 28] No space left on device", Outcome.STORAGE_ERROR),
        ("StartRefusedError: will not start from zero", Outcome.REFUSED),
        ("StorageError: cannot write", Outcome.STORAGE_ERROR),
        ("RankTimeoutError: rank 3 did not answer", Outcome.COMMUNICATION),
    ],
)
def test_what_a_program_raised_tells_how_it_ended_where_nothing_else_does(exception: str, expected: Outcome) -> None:
    ending = classify_raised((exception,))
    assert ending.outcome is expected
    assert "exit code" not in ending.reason


class TestStopped:
    @pytest.mark.parametrize(
        ("cause", "expected"),
        [
            ("SIGTERM", Outcome.PREEMPTED),
            ("SIGUSR1", Outcome.PREEMPTED),
            ("SIGINT", Outcome.CANCELLED),
            ("time limit", Outcome.TIME_LIMIT),
        ],
    )
    @pytest.mark.parametrize("how", [{"exit_code": 75}, {"exit_code": 0}, {"exit_code": 1}, {"signal": 15}])
    def test_the_cause_is_what_the_launcher_was_told_whatever_the_code(
        self, cause: str, expected: Outcome, how: dict[str, int]
    ) -> None:
        assert outcome(stop_cause=cause, **how) is expected

    def test_finished_before_the_stop_had_an_effect_is_finished(self) -> None:
        assert outcome(stop_cause="SIGTERM", exit_code=0, is_finished=True) is Outcome.FINISHED

    def test_killed_after_the_grace_time_is_said(self) -> None:
        ending = classify(Evidence(signal=9, stop_cause="SIGTERM", was_forced=True))
        assert ending.outcome is Outcome.PREEMPTED
        assert "did not stop within the grace time" in ending.reason


def test_a_hang_is_a_hang_however_it_was_ended() -> None:
    assert outcome(signal=9, was_forced=True, hang="rank 1 stood still") is Outcome.HANG
    assert outcome(exit_code=0, hang="rank 1 stood still") is Outcome.HANG
    assert outcome(exit_code=0, is_finished=True, hang="rank 1 stood still") is Outcome.FINISHED
