"""Errors say what happened, what is safe and what to do; each kind has its own exit code."""

import pytest

from lastgood.core import errors


def test_the_text_has_all_three_parts():
    error = errors.StorageError("cannot write x", safe="older ones", remedy="free space")
    assert str(error).split("\n") == ["cannot write x", "  safe now: older ones", "  what to do: free space"]
    assert str(errors.StorageError("cannot write x")) == "cannot write x"
    assert (error.what, error.safe, error.remedy) == ("cannot write x", "older ones", "free space")


def test_codes_are_different_and_none_is_one_that_a_scheduler_requeues():
    codes = [kind.exit_code for kind in errors.LastgoodError.__subclasses__()]
    assert len(set(codes)) == len(codes)
    assert errors.EXIT_SAVED_RUN_AGAIN not in codes
    assert all(0 < code < 128 for code in codes)


def test_the_tree_in_the_docstring_is_the_code():
    for kind in errors.LastgoodError.__subclasses__():
        line = next(line for line in errors.__doc__.splitlines() if f" {kind.__name__} " in line)
        assert f" {kind.exit_code} " in line


def test_the_table_is_sorted_and_complete():
    table = errors.exit_code_table()
    assert table == sorted(table)
    assert {0, 1, 3, 75, 82, 83, 84, 130, 141} <= {code for code, _, _ in table}
    assert len(table) == 9 + len(errors.LastgoodError.__subclasses__())


@pytest.mark.parametrize("kind", errors.LastgoodError.__subclasses__())
def test_every_kind_can_be_caught_as_ours(kind):
    with pytest.raises(errors.LastgoodError, match="why"):
        raise kind("why")
