"""Differences between two environments are listed with what they can do to numbers, the worst first."""

from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.fingerprint import EDITION, NEWEST_EDITION, compare, differences, kept_variables, that_matter
from lastgood.core.fingerprint_items import VARIABLES, Effect, groups, item

names = st.sampled_from([*(name for _, members in groups() for name in members), "of tomorrow"])
environments = st.dictionaries(names, st.text(max_size=5)).map(lambda facts: {EDITION: NEWEST_EDITION, **facts})


@given(environments)
def test_nothing_differs_from_itself(environment):
    assert compare(environment, dict(environment)) == []


@given(environments, environments)
def test_an_item_that_both_have_is_a_difference_if_and_only_if_it_differs(old, new):
    found = [one.name for one in compare(old, new)]
    assert len(found) == len({*found})
    assert {*found} & {*old} & {*new} == {name for name in {*old} & {*new} if old[name] != new[name]}
    assert {*found} <= {*old, *new}


@given(environments, environments)
def test_what_changes_numbers_comes_first_and_what_does_not_comes_last(old, new):
    order = [list(Effect).index(one.effect) for one in compare(old, new)]
    assert order == sorted(order)


@given(environments, environments)
def test_the_other_way_round_the_same_items_differ(old, new):
    there, back = compare(old, new), compare(new, old)
    assert [(one.name, one.old, one.new) for one in there] == [(one.name, one.new, one.old) for one in back]


def test_a_line_says_what_can_happen():
    old, new = {"cudnn": "91002", "host": "a"}, {"cudnn": "91300", "host": "b"}
    assert differences(old, new) == [
        "cudnn: 91002 -> 91300 (convolutions, recurrent layers and attention may take another algorithm)"
    ]


def test_a_variable_on_one_side_is_not_set_on_the_other_and_a_gpu_is_absent():
    old = {EDITION: NEWEST_EDITION, "gpu": "A100"}
    new = {EDITION: NEWEST_EDITION, "NCCL_ALGO": "Ring", "MKL_CBWR": ""}
    said = {one.name: (one.old, one.new) for one in compare(old, new)}
    assert said == {"NCCL_ALGO": ("not set", "Ring"), "gpu": ("A100", "absent"), "MKL_CBWR": ("not set", "(empty)")}


def test_torch_for_cpus_in_place_of_torch_for_cuda_is_told():
    old, new = {EDITION: NEWEST_EDITION, "torch": "2+cu", "cuda": "12"}, {EDITION: NEWEST_EDITION, "torch": "2+cpu"}
    assert [(one.name, one.new) for one in compare(old, new)] == [("torch", "2+cpu"), ("cuda", "absent")]


def test_a_framework_that_only_one_side_has_is_no_difference():
    """The facts of a machine alone have none; nor do they tell of ranks."""
    old = {"torch": "2", "torch.threads": "2", "gromacs.reprod": "on", "ranks": "2", "scipy": "1"}
    assert compare({EDITION: NEWEST_EDITION, **old}, {EDITION: NEWEST_EDITION}) == []


def test_facts_of_an_older_checkpoint_are_compared_as_far_as_they_go():
    """What was not looked at then is no difference."""
    old = {"python": "3.11", "numpy": "2.1", "threads": "default"}
    new = {EDITION: NEWEST_EDITION, "python": "3.11", "numpy": "2.2", "blas": "openblas", "NCCL_ALGO": "Ring"}
    assert [one.name for one in compare(old, new)] == ["numpy"]


def test_the_name_of_the_host_matters_to_nobody():
    found = compare({"host": "a"}, {"host": "b"})
    assert [one.effect for one in found] == [Effect.NONE]
    assert that_matter(found) == []


def test_an_item_that_nobody_knows_may_change_numbers():
    assert item("of tomorrow").effect is Effect.MAY_CHANGE


def test_every_item_stands_in_one_group_and_says_why():
    members = [name for _, names in groups() for name in names]
    assert len(members) == len({*members})
    assert all(item(name).why and not item(name).why.endswith(".") for name in members)


def test_only_variables_of_the_table_are_kept():
    assert kept_variables({"HOME": "/root", "AWS_SECRET_ACCESS_KEY": "x", "NVIDIA_TF32_OVERRIDE": "0"}) == {
        "NVIDIA_TF32_OVERRIDE": "0"
    }
    assert {"CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "CUDA_VISIBLE_DEVICES", "NCCL_ALGO"} <= VARIABLES.keys()
