"""Which commands are Python with a script or a module, and where in them the options end."""

import pytest

from lastgood.launch.python_command import parse_python_command


@pytest.mark.parametrize(
    ("command", "options", "rest"),
    [
        ("python train.py", [], ["train.py"]),
        ("/usr/bin/python3.11 -u train.py -m x", ["-u"], ["train.py", "-m", "x"]),
        ("python3.13t -X dev -Wignore train.py", ["-X", "dev", "-Wignore"], ["train.py"]),
        ("python -uBX dev -W error -m pkg.train -c x", ["-uBX", "dev", "-W", "error"], ["-m", "pkg.train", "-c", "x"]),
        ("python --check-hash-based-pycs never train.py", ["--check-hash-based-pycs", "never"], ["train.py"]),
    ],
)
def test_options_end_at_the_script_or_the_module(command: str, options: list[str], rest: list[str]) -> None:
    found = parse_python_command(command.split())
    assert found is not None
    assert (found.options, found.rest) == (options, rest)


@pytest.mark.parametrize(
    "command",
    [
        "python",
        "python -",
        "python -c pass",
        "python -uc pass",
        "python -i train.py",
        "python -V",
        "python -m",
        "python --x",
    ],
)
def test_python_that_runs_no_script_is_none(command: str) -> None:
    assert parse_python_command(command.split()) is None


@pytest.mark.parametrize(
    "command", ["bash train.sh", "./train.py", "pythonic train.py", "env -i python train.py", "env"]
)
def test_other_commands_are_none(command: str) -> None:
    assert parse_python_command(command.split()) is None


def test_what_env_sets_is_what_the_interpreter_finds() -> None:
    found = parse_python_command(["/usr/bin/env", "A=1", "B=", "python", "train.py"])
    assert found is not None
    assert found.words == ["python", "train.py"]
    assert found.assigned == {"A": "1", "B": ""}


def test_an_interpreter_of_another_name_is_one_if_the_caller_knows_it() -> None:
    assert parse_python_command(["py", "train.py"]) is None
    assert parse_python_command(["py", "train.py"], lambda word: word == "py") is not None
