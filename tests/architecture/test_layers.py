"""The structure of the source, held by tests: who may import whom, and who may do what."""

import ast
from pathlib import Path

import pytest

import lastgood

SOURCE = Path(lastgood.__file__).parent

LAYERS = [
    "core",
    "store",
    "keeper",
    "runtime launch",
    "frameworks schedulers apps",
    "trial",
    "audit plan drill prove report",
    "testing",
    "cli",
]
"""From the ground up; imports go down only, and not between neighbours."""

REASONS = {
    "core": "core decides and describes; anything it imported from above would drag files, processes or clocks into decisions",
    "store": "the store keeps bytes safe for any user; it must not know who writes or why",
    "keeper": "the keeper outlives the job: it must not load the job side, or anything that the job side loads",
    "runtime": "the job side must work without a launcher, and a launcher must not be loaded into the job",
    "launch": "the launcher must work for programs that know nothing of us, and must not load the job side",
    "frameworks": "a framework adapter serves the job side; it must not reach for commands or schedulers",
    "schedulers": "a scheduler adapter serves the launcher; it must not reach for commands or frameworks",
    "apps": "an application's adapter serves the launcher; it must not reach for commands or schedulers",
    "audit": "an audit reads what is there; it must not reach for commands, or for what the planner measures",
    "trial": "a trial runs somebody's command and watches it; what is caused in it and what is compared lies above",
    "drill": "a drill causes failures and measures; comparing answers is the proof's, showing them the report's",
    "prove": "a proof compares answers; it needs a kill, and no catalogue of faults",
    "report": "a report reads journals; it must not reach for what caused them",
    "plan": "a plan is numbers; it must not reach for commands, or for the audit's parsers",
}

OPTIONAL = {
    "torch": "frameworks",
    "numpy": "frameworks prove",
    "mpi4py": "frameworks",
    "safetensors": "frameworks prove",
    "torchdata": "frameworks",
    "tree_sitter": "audit",
    "tree_sitter_bash": "audit",
    "yaml": "audit",
    "polars": "plan",
    "matplotlib": "plan report",
    "mfusepy": "drill",
}
"""Packages that only some jobs have or need, and where they may be imported."""

NUMPY_ALLOWED = {"runtime/sampler.py", "plan/simulate.py"}
"""The sampler makes its order with NumPy, which every job that uses it has. The plan's simulation walks thousands of jobs at
once, which without NumPy takes minutes; it is imported when something is simulated."""

DURABLE_CALLS = {
    ("os", "fsync"),
    ("os", "fdatasync"),
    ("os", "replace"),
    ("os", "rename"),
    ("os", "link"),
    ("os", "unlink"),
    ("os", "remove"),
    ("os", "rmdir"),
    ("shutil", "rmtree"),
    ("shutil", "move"),
}

NOT_OF_A_JOB = {"launch/attempt.py", "trial/place.py", "drill/filesystem/passing.py"}
"""The first removes the directory of heartbeats that it made on this node: nothing there outlives the attempt. The second
works on copies that were made to be spoilt. The third is a file system: it passes on what others ask of it."""

MODULES = sorted(SOURCE.rglob("*.py"))


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "lastgood" and (SOURCE / parts[1]).is_dir() else None


def height(layer: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if layer in names.split())


def imports_of(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.lineno, node.module))
    return found


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_down_only(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0]
    if not (SOURCE / own).is_dir():
        return
    for line, module in imports_of(path):
        other = layer_of(module)
        if other is None or other == own:
            continue
        assert height(other) < height(own), (
            f"{name_of(path)}:{line}: {own} may not import {other}: {REASONS.get(own, '')}"
        )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_optional_packages_are_imported_only_where_their_adapter_is(path: Path) -> None:
    for line, module in imports_of(path):
        homes = OPTIONAL.get(module.split(".")[0])
        if homes is None or path.relative_to(SOURCE).parts[0] in homes.split() or name_of(path) in NUMPY_ALLOWED:
            continue
        pytest.fail(
            f"{name_of(path)}:{line}: {module} may be imported in {homes} only: a plain install lacks it, or pays for it"
        )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_one_module_renames_flushes_and_deletes(path: Path) -> None:
    if name_of(path) == "store/durable.py" or name_of(path) in NOT_OF_A_JOB:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        assert (owner, node.func.attr) not in DURABLE_CALLS, (
            f"{name_of(path)}:{node.lineno}: {owner}.{node.func.attr} belongs to store/durable.py, which knows the order "
            "that survives a crash"
        )


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= 400, f"{name_of(path)} has {lines} lines: it usually holds two ideas by now"


def test_the_public_names_are_these() -> None:
    assert set(lastgood.__all__) == {
        "Every",
        "Keep",
        "LastgoodError",
        "ResumableSampler",
        "Run",
        "Writing",
        "__version__",
        "read_log",
    }
    for name in lastgood.__all__:
        assert getattr(lastgood, name) is not None


def test_every_error_has_a_code_and_a_meaning_of_its_own() -> None:
    from lastgood.core.errors import EXIT_INTERRUPTED, EXIT_OUTPUT_CUT_OFF, LastgoodError, exit_code_table

    codes = [code for code, _, _ in exit_code_table()]
    assert len(codes) == len(set(codes))
    assert all(error.meaning != LastgoodError.meaning for error in LastgoodError.__subclasses__())
    as_shells_say_it = {EXIT_INTERRUPTED, EXIT_OUTPUT_CUT_OFF}
    assert all(code < 128 for code in {*codes} - as_shells_say_it), "Slurm shows codes from 128 up less 128"
