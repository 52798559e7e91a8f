"""Which files are audited, and which programs are found beside a script."""

import os
from pathlib import Path

import pytest

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.beside import Programs
from lastgood.audit.discovery import discover
from lastgood.audit.finding import Problem
from lastgood.audit.reading import LIMIT_BYTES, load
from lastgood.audit.source import Source

JOB = "#!/bin/bash\n#SBATCH -t 9:00:00\n"


def names(root: Path, *excluded: str) -> list[str]:
    return [os.path.relpath(found.path, root) for found in discover([str(root)], excluded).candidates]


def test_a_directory_gives_what_looks_like_a_job(tmp_path: Path) -> None:
    for name in ("a.sh", "b.sbatch", "c.slurm", "d.job", "e.bash", "f.yaml", "g.yml"):
        (tmp_path / name).write_text("x")
    (tmp_path / "run").write_text(JOB)
    (tmp_path / "notes.md").write_text("Write\n" + JOB)
    (tmp_path / "plain").write_text("#!/bin/bash\nmake\n")
    (tmp_path / "train.py").write_text("import os\n")
    (tmp_path / "core").write_bytes(b"#!\0\n#SBATCH -n\n")
    assert names(tmp_path) == ["a.sh", "b.sbatch", "c.slurm", "d.job", "e.bash", "f.yaml", "g.yml", "run"]


def test_files_of_data_are_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.npy", "ckpt.000123", "b.h5", "train.py", "job", "job.cmd", "job.sh.j2"):
        (tmp_path / name).write_text(JOB)
    opened: list[str] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: (opened.append(os.path.basename(path)), real(path, *rest))[1])
    assert names(tmp_path) == ["job", "job.cmd", "job.sh.j2"]
    assert opened == ["job", "job.cmd", "job.sh.j2"]


def test_repositories_environments_and_what_is_excluded_are_passed_over(tmp_path: Path) -> None:
    for place in (".git", "venv", "node_modules", "mine", "env2", "keep"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.sh").write_text(JOB)
    (tmp_path / "env2" / "pyvenv.cfg").write_text("")
    assert names(tmp_path) == ["keep/a.sh", "mine/a.sh"]
    assert names(tmp_path, "mine") == ["keep/a.sh"]
    assert names(tmp_path, "*/mine/*.sh") == ["keep/a.sh"]


def test_links_in_a_circle_end_and_a_file_with_two_names_is_audited_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.sh").write_text(JOB)
    (tmp_path / "in" / "up").symlink_to(tmp_path)
    (tmp_path / "b.sh").symlink_to("in/a.sh")
    (tmp_path / "c.sh").symlink_to("c.sh")
    (tmp_path / "d.sh").symlink_to("nowhere")
    os.mkfifo(tmp_path / "e.sh")
    assert names(tmp_path) == ["b.sh"]


def test_a_named_file_is_taken_as_it_is_and_comes_first(tmp_path: Path) -> None:
    (tmp_path / "z.txt").write_text("x")
    (tmp_path / "a.sh").write_text(JOB)
    found = discover([str(tmp_path / "z.txt"), str(tmp_path), str(tmp_path / "a.sh"), "nowhere"])
    assert [(os.path.basename(one.path), one.is_named) for one in found.candidates] == [
        ("z.txt", True),
        ("a.sh", False),
        ("nowhere", True),
    ]


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    big = tmp_path / "big.sh"
    big.write_bytes(b"")
    os.truncate(big, 100 << 20)
    said = {}
    for name in ("link", "pipe", "big.sh", "missing", "a\0b"):
        problem = load(str(tmp_path / name))
        assert isinstance(problem, Problem)
        said[name] = problem
    assert said["link"].is_missing and "link to nothing" in said["link"].message
    assert "no regular file" in said["pipe"].message
    assert "larger than 4 MB" in said["big.sh"].message and LIMIT_BYTES == 4_000_000
    assert said["missing"].is_missing and said["a\0b"].is_missing


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A script in jobs/slurm, and programs around it."""
    for name in ("train.py", "src/model.py", "jobs/near.py", "jobs/slurm/beside.py", "jobs/slurm/work/inside.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import os\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("", "beside.py", "jobs/slurm/beside.py"),
        ("", "./beside.py", "jobs/slurm/beside.py"),
        ("", "train.py", "train.py"),
        ("", "src/model.py", "src/model.py"),
        ("", "../near.py", "jobs/near.py"),
        ("cd work\n", "inside.py", "jobs/slurm/work/inside.py"),
        ("HERE=work\ncd $HERE\n", "inside.py", "jobs/slurm/work/inside.py"),
        ("#SBATCH --chdir=work\n", "inside.py", "jobs/slurm/work/inside.py"),
        ("", "inside.py", None),
        ("cd $1\n", "inside.py", None),
        ("", "${SLURM_SUBMIT_DIR}/train.py", "train.py"),
        ("", "${HOME}/train.py", None),
        ("", "train", None),
        ("", "/etc/passwd", None),
    ],
)
def test_a_program_is_found_where_the_script_would_start_it(
    site: Path, text: str, path: str, place: str | None
) -> None:
    near = str(site / "jobs/slurm/job.sh")
    programs = Programs()
    programs.begin(near, [BatchScript(Source(near, (JOB + text).encode()))])
    found = programs.find(near, path)
    assert (None if found is None else os.path.relpath(found.path, site)) == place


def test_a_program_is_parsed_once_and_a_broken_or_large_one_is_none(site: Path) -> None:
    near = str(site / "job.sh")
    (site / "broken.py").write_text("print 'x'\n")
    (site / "large.py").write_text("# \n" * (1 << 20))
    programs = Programs()
    programs.begin(near, [])
    assert programs.find(near, "train.py") is programs.find(near, str(site / "train.py"))
    assert programs.find(near, "broken.py") is None
    assert programs.find(near, "large.py") is None
    assert [os.path.basename(path) for path in programs.found] == ["train.py"]
