"""What a shell script does, command by command, with the surroundings of each."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.audit.batch.shell import Command, Shell, Trap, read_shell
from lastgood.audit.source import Source


def shell(text: str) -> Shell:
    return read_shell(Source("job.sh", text.encode("utf-8", "surrogateescape")))


def command(text: str, name: str) -> Command:
    return next(c for c in shell(text).commands if c.name == name)


def trap(text: str) -> Trap:
    return shell(text).traps[0]


def names(commands: "tuple[Command, ...] | list[Command]") -> list[str]:
    return [c.name for c in commands]


def test_commands_come_in_the_order_of_the_text() -> None:
    assert names(shell("a; b && c || d\nif e; then f; else g; fi\nh | i\n").commands) == list("abcdefghi")


@pytest.mark.parametrize("text", ["a | b | x | d", "a | b |& x | d", "a | b | x > log | d"])
def test_a_pipe_is_one_however_long(text: str) -> None:
    around = command(text, "x").around
    assert (around.pipe_position, around.pipe_length) == (2, 4)


def test_a_pipe_behind_a_here_document_goes_on() -> None:
    around = command("cat <<EOF | x\ntext\nEOF\n", "x").around
    assert (around.pipe_position, around.pipe_length) == (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "x &",
        "x & y",
        "x &\nwait",
        "x > log 2>&1 &",
        "x | tee log &",
        "a && x &",
        "{ a; x; } &",
        "( a; x ) &",
        "for i in 1 2; do x & done",
        "for i in 1 2; do a; x; done &",
        "while a; do\n x &\ndone",
        "if a; then x & fi",
        "if a; then\n b\nelif c; then\n x &\n d\nfi",
        "if a; then\n b\nelse\n x &\nfi",
        "case $a in b) x & ;; esac",
        "f() { x & }",
        "A=1 x &",
    ],
)
def test_a_command_in_the_background_is_seen(text: str) -> None:
    assert command(text, "x").around.is_background


@pytest.mark.parametrize(
    "text", ["x && a &\nx", "x; y &", "y &\nx\nwait", "if a; then y & x; fi", "x 2>&1", "x &> log"]
)
def test_what_only_stands_beside_the_background_is_not_in_it(text: str) -> None:
    assert not [c for c in shell(text).commands if c.name == "x"][-1].around.is_background


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        ("trap 'x' USR1", ("USR1",)),
        ("trap -- 'x' SIGUSR1", ("USR1",)),
        ('trap "x $PID" 15 EXIT', ("TERM", "EXIT")),
        ("trap x SIGTERM sigusr2", ("TERM", "USR2")),
    ],
)
def test_a_trap_has_its_signals_and_commands(text: str, signals: tuple[str, ...]) -> None:
    found = trap(text)
    assert found.signals == signals and names(found.body) == ["x"]
    assert not found.is_ignore and not found.is_reset


@pytest.mark.parametrize(
    "text",
    [
        "h() { x; y; }\ntrap h USR1",
        "trap h USR1\nfunction h { x; y; }",
        "trap -- 'h $1' USR1\nh() {\n  x\n  y\n}",
        "inner() { y; }\nh() { x; inner; h; }\ntrap h USR1",
    ],
)
def test_a_trap_does_what_the_functions_do_that_it_calls(text: str) -> None:
    assert {"x", "y"} <= set(names(trap(text).body))


def test_a_trap_of_an_unknown_command_has_only_that() -> None:
    assert names(trap("trap 'h' USR1\nother() { x; }").body) == ["h"]


def test_ignoring_and_resetting_are_told_apart() -> None:
    found = shell("trap '' USR1\ntrap - USR1\ntrap USR1\ntrap -p\ntrap -l USR1").traps
    assert [(t.is_ignore, t.is_reset) for t in found] == [(True, False), (False, True), (False, True)]


@pytest.mark.parametrize(
    "text",
    [
        "bash -c 'a; x b'",
        "bash -lc 'a && x b'",
        'srun -n 2 bash -c "cd /y && x b"',
        'srun singularity exec img.sif bash -ec "x b"',
        "sh -e -c 'x b' name",
    ],
)
def test_a_string_that_a_shell_runs_is_read(text: str) -> None:
    found = command(text, "x")
    assert found.around.within == "-c" and [w.text for w in found.arguments] == ["b"]
    assert found.around.outer is not None and found.around.outer.span.line == 1


@pytest.mark.parametrize("text", ["bash x.sh -c 'y'", "bash $FILE", "grep -c 'y' sh"])
def test_what_is_no_such_string_is_not_read(text: str) -> None:
    assert "y" not in names(shell(text).commands)


@pytest.mark.parametrize("text", ["eval 'x b'", "eval x b", "eval x b '&'"])
def test_eval_runs_its_words(text: str) -> None:
    found = [c for c in shell(text).commands if c.name == "x"]
    assert len(found) == 1 and found[0].around.within == "eval"


def test_loops_name_their_kind_and_condition() -> None:
    around = command("while true; do for i in a b; do x; done; done", "x").around
    assert [(loop.kind, loop.condition) for loop in around.loops] == [("while", "true"), ("for", "a b")]
    around = command("until x; do y; done", "x").around
    assert around.is_condition and [loop.kind for loop in around.loops] == ["until"]


def test_the_end_of_a_list_is_known() -> None:
    assert command("x || true", "x").around.rescued_by == "true"
    assert command("x && y", "x").around.is_condition and command("x && y", "y").around.is_conditional
    assert command("! x", "x").around.is_condition
    assert command("if x; then y; fi", "x").around.is_condition


def test_substitutions_and_subshells_are_marked() -> None:
    assert command('A="$(b | x)"', "x").around.in_substitution
    assert command("(a; x)", "x").around.in_subshell
    assert command("a <(x)", "x").around.in_substitution


def test_a_here_document_is_no_command() -> None:
    found = shell("sbatch <<'EOF'\n#!/bin/bash\nsrun x\nEOF\nz\n")
    assert names(found.commands) == ["sbatch", "z"]
    assert found.heredocs[0].command is not None and found.heredocs[0].command.name == "sbatch"


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 400 + "x" + ")" * 400,
        "(" * 600 + "x" + ")" * 600,
        "if a; then " * 400 + "x" + "; fi" * 400,
        "while a; do " * 300 + "x" + "; done" * 300,
        '"$(' * 300 + "x" + ')"' * 300,
        "a | " * 3000 + "x",
        "a && " * 3000 + "x",
        "bash -c '" * 100 + "x",
        "${a:-" * 400 + "}" * 400,
        "$((" * 400 + "1" + "))" * 400,
        "f() { " * 300 + "x; " + "}; " * 300,
    ],
)
def test_whatever_is_nested_without_end_is_read_or_named(text: str) -> None:
    found = shell(text)
    assert sys.getrecursionlimit() >= 1000
    assert found.unreadable or found.commands


_TOKENS = [*"|&;(){}<>$`'\"\n\\!*#=", "&&", "||", ";;", " ", "if", "then", "fi", "while", "do", "done", "case", "in", "esac",
           "trap", "eval", "bash -c", "<<EOF", "EOF", "$(", "${", "$((", "))", "x", "USR1", "f()", "srun", "\udcff", "é"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_TOKENS), max_size=40))
def test_no_text_makes_it_fail(tokens: list[str]) -> None:
    text = " ".join(tokens)
    data = text.encode("utf-8", "surrogateescape")
    found = read_shell(Source("job.sh", data))
    for c in found.commands:
        assert 0 <= c.begin <= c.end <= len(data)
    for t in found.traps:
        assert isinstance(t.body, tuple)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    read_shell(Source("job.sh", data))
