"""The hook for pre-commit runs what is there, with what it needs."""

import re
import tomllib
from pathlib import Path

import yaml

from lastgood.audit.recognise import _SHELL_SUFFIXES, _YAML_SUFFIXES, is_named_like_one
from lastgood.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def hook() -> dict[str, object]:
    (only,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return dict(only)


def test_it_runs_a_command_that_exists() -> None:
    program, command = str(hook()["entry"]).split()
    assert program == "lastgood" and command in COMMANDS
    assert hook()["language"] == "python"


def test_it_brings_what_the_audit_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert hook()["additional_dependencies"] == project["project"]["optional-dependencies"]["audit"]


def test_it_gets_the_files_that_a_search_would_find() -> None:
    pattern = re.compile(str(hook()["files"]))
    for name in ("job.sh", "job.sbatch", "job.slurm", "a.job", "a.bash", "a.yaml", "a.yml"):
        assert pattern.search(name) and is_named_like_one(name)
    assert not pattern.search("train.py")
    assert {".sh", ".sbatch", ".slurm", ".job", ".bash"} <= set(_SHELL_SUFFIXES) and ".yaml" in _YAML_SUFFIXES
