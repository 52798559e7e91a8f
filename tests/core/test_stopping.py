"""What signals mean, and what each process is sent for them."""

import signal

import pytest

from lastgood.core.quoting import shown, shown_command
from lastgood.core.signals import signal_name
from lastgood.core.stopping import Manner, signal_for, stop_on_signal, stop_time


def test_the_first_signal_gives_the_cause_and_starts_the_grace_time() -> None:
    stop = stop_on_signal(None, signal.SIGUSR1, 100.0, 30.0)
    assert (stop.cause, stop.kill_at) == ("SIGUSR1", 130.0)
    assert stop_on_signal(stop, signal.SIGTERM, 110.0, 30.0) == stop


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_another_ctrl_c_ends_the_grace_time(first: int) -> None:
    stop = stop_on_signal(stop_on_signal(None, first, 100.0, 30.0), signal.SIGINT, 101.0, 30.0)
    assert (stop.kill_at, stop.is_hurried, stop.cause) == (101.0, True, signal.Signals(first).name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_who_handles_a_stop_signal_gets_it_and_others_get_sigterm(number: int) -> None:
    assert signal_for(number, Manner.STOP, is_caught=True) == number
    assert signal_for(number, Manner.STOP, is_caught=False) == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM])
def test_save_and_carry_on_never_ends_a_process_that_does_not_know_it(number: int) -> None:
    assert signal_for(number, Manner.SAVE, is_caught=True) == number
    assert signal_for(number, Manner.SAVE, is_caught=False) is None


@pytest.mark.parametrize("is_caught", [True, False])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR2, signal.SIGKILL, 0])
def test_a_signal_that_is_named_is_the_one_that_is_sent(number: int, is_caught: bool) -> None:
    assert signal_for(number, Manner.AS_IS, is_caught=is_caught) == number


@pytest.mark.parametrize("is_caught", [True, False])
def test_a_lost_terminal_asks_everybody_to_save_and_stop(is_caught: bool) -> None:
    assert signal_for(signal.SIGHUP, Manner.STOP, is_caught=is_caught) == signal.SIGTERM


def test_a_time_limit_leaves_the_grace_time_but_never_eats_up_a_short_allocation() -> None:
    assert stop_time(4600.0, 1000.0, 30.0) == 4570.0
    assert stop_time(1008.0, 1000.0, 30.0) == 1006.0
    assert stop_time(900.0, 1000.0, 30.0) == 900.0


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 10, 11, 12, 15])
def test_names_are_those_of_this_system(number: int) -> None:
    assert signal_name(number) == signal.Signals(number).name


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("plain", "plain"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("", "''"),
        ("two\nlines", "$'two\\nlines'"),
        ("\x1b[31m", "$'\\x1b[31m'"),
        ("caf\udce9", "$'caf\\xe9'"),
        ("naïve", "naïve"),
    ],
)
def test_arguments_are_shown_as_a_shell_needs_them_and_never_raw(argument: str, text: str) -> None:
    assert shown(argument) in (text, f"'{text}'")
    assert shown_command([argument, "x"]).endswith(" x")
