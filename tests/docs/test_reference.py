"""The reference pages say what the code does: they are made from it, and nothing is missing in them."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from lastgood.cli.main import COMMANDS
from lastgood.core import errors, layout

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("gen_reference", ROOT / "scripts" / "gen_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["cli.md", "exit-codes.md", "environment.md"])
def test_the_page_is_current(generator, page):
    made = generator.pages()[page]
    assert (REFERENCE / page).read_text(encoding="utf-8") == made, "run: python scripts/gen_reference.py"


def test_the_rules_pages_are_current_and_no_other_is_there(generator):
    made = generator.rule_pages()
    there = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "rules").glob("*.md")}
    assert sorted(there) == sorted(made)
    assert [name for name in made if there[name] != made[name]] == [], "run: python scripts/gen_reference.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_in_the_page(generator, command):
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    section = page.split(f"\n## lastgood {command}\n")[1].split("\n## ")[0]
    for action in generator.actions(generator.command_parser(command)):
        assert action.help, f"{command}: {action.dest} has no help"
        for option in action.option_strings:
            assert f"`{option}" in section or f", {option}" in section


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(generator, command):
    assert f"lastgood {command}" in (generator.command_parser(command).epilog or "")


def test_every_variable_that_the_code_names_is_in_the_page():
    page = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    ours = [value for name, value in vars(layout.Env).items() if name.isupper()]
    assert set(ours) == set(layout.ENVIRONMENT)
    looks_like_one = re.compile(r"(LASTGOOD|SLURM|TORCH\w*|XDG|OMP|PYTHON\w*)_[A-Z_]+|PYTHONHASHSEED|HOME|WORLD_SIZE")
    for module in (ROOT / "src").rglob("*.py"):
        if "audit" in module.parts:
            # What it names are variables in scripts of others; it reads none.
            continue
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and looks_like_one.fullmatch(node.value):
                assert f"`{node.value}`" in page, f"{module.name} uses {node.value}"


def test_every_error_has_a_code_of_its_own_and_a_meaning():
    kinds = errors.LastgoodError.__subclasses__()
    codes = [kind.exit_code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(kind.meaning != errors.LastgoodError.meaning for kind in kinds)
    assert errors.EXIT_SAVED_RUN_AGAIN not in codes
    page = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    assert all(f"| {kind.exit_code} | {kind.__name__} |" in page for kind in kinds)


def test_check_notices_a_page_that_is_not_current(generator, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generator, "REFERENCE", tmp_path)
    monkeypatch.setattr("sys.argv", ["gen_reference.py"])
    assert generator.main() == 0
    monkeypatch.setattr("sys.argv", ["gen_reference.py", "--check"])
    assert generator.main() == 0
    (tmp_path / "cli.md").write_text("old")
    assert generator.main() == 1
    assert (tmp_path / "cli.md").read_text() == "old"
    assert "cli.md" in capsys.readouterr().err
