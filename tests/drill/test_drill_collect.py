"""What several faults want of `lastgood run` at once."""

from lastgood.drill.collect import added_options


def test_every_exit_code_that_a_fault_makes_is_restarted() -> None:
    assert added_options((), ("--restart-on", "1", "--restart-on", "17", "--restart-on", "1")) == [
        "--restart-on",
        "1,17",
    ]


def test_the_shortest_grace_and_the_longest_limit_of_a_hang_suit_all() -> None:
    assert added_options((), ("--grace", "3.75s", "--grace", "15s")) == ["--grace", "3.75s"]
    assert added_options((), ("--hang-timeout", "10s", "--hang-timeout", "4s")) == ["--hang-timeout", "10s"]


def test_what_the_user_has_given_is_left_as_it_is() -> None:
    assert added_options(("--restart-on=3",), ("--restart-on", "1", "--restart-on", "17")) == []
