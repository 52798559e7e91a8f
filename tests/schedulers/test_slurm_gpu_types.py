"""GPUs are asked for by the type that the job began on, where nothing names one."""

import pytest

from lastgood.schedulers.slurm_gpu_types import type_of_node, with_type


@pytest.mark.parametrize(
    ("gres", "found"),
    [
        ("gpu:a100:8(S:0-1)", "a100"),
        ("gpu:nvidia_h100_80gb_hbm3:4", "nvidia_h100_80gb_hbm3"),
        ("lscratch:1,gpu:v100:2(S:0),shard:v100:8(S:0)", "v100"),
        ("gpu:2(S:0)", ""),
        ("gpu:a100:2,gpu:t4:1", ""),
        ("(null)", ""),
        ("", ""),
    ],
)
def test_the_type_of_a_node(gres, found):
    assert type_of_node(gres) == found


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (["--gres=gpu:2"], ["--gres=gpu:a100:2"]),
        (["--gres", "gpu"], ["--gres=gpu:a100:1"]),
        (["--gres=gpu:t4:2"], []),
        (["--gres=shard:1,gpu:2"], ["--gres=shard:1,gpu:a100:2"]),
        (["--gpus=4"], ["--gpus=a100:4"]),
        (["-G4"], ["--gpus=a100:4"]),
        (["--gpus-per-node=2", "--gpus-per-task=t4:1"], ["--gpus-per-node=a100:2"]),
        (["--nodes=2"], []),
        ([], []),
    ],
)
def test_only_what_names_no_type_is_given_one(words, added):
    assert with_type(words, {}, "a100") == added


def test_a_variable_of_sbatch_counts_where_no_option_is_given():
    assert with_type([], {"SBATCH_GRES": "gpu:1"}, "a100") == ["--gres=gpu:a100:1"]
