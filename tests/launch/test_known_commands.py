"""What is known of torchrun, wherever it stands in a command."""

import pytest

from lastgood.launch.known_commands import advice, is_srun, is_torchrun, warning

TORCHRUN = ["torchrun", "--nproc-per-node=2", "train.py"]
VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


@pytest.mark.parametrize(
    "command",
    [
        TORCHRUN,
        ["/opt/bin/torchrun", "train.py"],
        ["python", "-m", "torch.distributed.run", "train.py"],
        ["conda", "run", "-n", "x", "torchrun", "train.py"],
        ["srun", "python", "-m", "torch.distributed.launch", "train.py"],
    ],
)
def test_torchrun_is_recognised(command: list[str]) -> None:
    assert is_torchrun(command)
    assert advice(command, {})[VARIABLE] == "1"


@pytest.mark.parametrize(
    "command", [["python", "train.py"], ["python", "-m", "train"], ["echo", "torchrun.py"], ["-m"]]
)
def test_other_commands_get_nothing(command: list[str]) -> None:
    assert not is_torchrun(command)
    assert advice(command, {}) == {}
    assert warning(command, 600.0) == ""


def test_what_the_user_has_set_stays() -> None:
    assert advice(TORCHRUN, {VARIABLE: "0"}) == {}


def test_a_grace_time_that_torchrun_will_not_give_is_said() -> None:
    assert "30 s" in warning(TORCHRUN, 31.0)
    assert warning(TORCHRUN, 30.0) == ""


def test_srun_ends_its_step_when_a_rank_dies_unless_the_user_has_decided() -> None:
    command = ["/usr/bin/srun", "-n2", "./a.out"]
    assert is_srun(command) and not is_srun(["bash", "-c", "srun ./a.out"])
    assert advice(command, {}) == {"SLURM_KILL_BAD_EXIT": "1"}
    assert advice(command, {"SLURM_KILL_BAD_EXIT": "0"}) == {}
