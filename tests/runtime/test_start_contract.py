"""The contract of a start, with real runs: fresh, resumed or refused, and never fresh by mistake."""

import errno
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from faults.forge import reseal
from lastgood.core import layout
from lastgood.core.errors import (
    DamagedError,
    FormatVersionError,
    JobBusyError,
    LastgoodError,
    PermissionDeniedError,
    StartRefusedError,
    StorageError,
    UsageError,
)
from lastgood.store import attempts, catalogue, jobdir, reader
from lastgood.store.record import Records, state_directory
from launch.conftest import without_root_powers

Start = Callable[..., lastgood.Run]
KEEP = lastgood.Keep(last=None)
SURROUNDINGS = ["TORCHELASTIC_RESTART_COUNT", *layout.ENVIRONMENT]

PROGRAM = """
import sys
import numpy as np
import lastgood
weights = np.zeros(3)
run = lastgood.Run({"weights": weights}, job=sys.argv[1], every=1)
for step in run.steps(3):
    weights += step
"""


@pytest.fixture(autouse=True)
def _nobody_started_us(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SURROUNDINGS:
        if name != layout.Env.STATE_DIR:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(layout.Env.KEEPER, "off")


def live(start: Start, until: int, **settings: Any) -> int:
    """A life of the job that saves every step up to `until` and dies in the next. The step it began from."""
    weights = np.zeros(3)
    with start({"weights": weights}, **{"keep": KEEP, **settings}) as run:
        began = run.step
        assert weights.tolist() == [sum(range(began + 1))] * 3
        for step in run.steps(1000):
            if step > until:
                break
            weights += step
    return began


def records() -> Records:
    return Records(state_directory(dict(os.environ)))


def started(path: Path, attempt: int) -> dict[str, Any]:
    (data,) = (e.data for e in attempts.read_events(jobdir.open_job(path), attempt) if e.kind == "started")
    return data


def marks(path: Path) -> dict[str, str]:
    return {c.name: c.rejected for c in catalogue.list_checkpoints(jobdir.open_job(path)) if c.rejected}


def flip(path: Path, name: str) -> None:
    data = path / "checkpoints" / name / "rank-00000.safetensors"
    content = bytearray(data.read_bytes())
    content[-5] ^= 1
    data.write_bytes(content)


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else b"" for p in sorted(path.rglob("*"))}


# Every combination of what is on disk, what is remembered and what surrounds the program ------------------------


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Job directories to copy: as a first life left them."""
    base = tmp_path_factory.mktemp("templates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LASTGOOD_STATE_DIR", str(base / "state"))
        for name, until in [("attempts", 0), ("commits", 2)]:
            live(lambda state, n=name, **settings: lastgood.Run(state, job=base / n, every=1, **settings), until)
    shutil.copytree(base / "commits", base / "emptied")
    for checkpoint in (base / "emptied" / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)
    return {name: base / name for name in ("nothing", "attempts", "commits", "emptied")}


def expected(disk: str, is_recorded: bool, restarts: str, expects: str, fresh: str) -> str:
    is_restart = restarts.endswith("=1")
    # A program that is started again with the same words does not mean the new start a second time.
    if fresh == "environment" or (fresh == "argument" and not is_restart):
        return "fresh"
    if disk == "commits":
        return "resumed"
    if disk == "emptied" or is_recorded or expects:
        return "refused"
    return "refused" if is_restart and disk == "nothing" else "fresh"


@pytest.mark.parametrize("disk", ["nothing", "attempts", "commits", "emptied"])
def test_every_combination_starts_as_the_contract_says(
    disk: str, templates: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda fd: None)
    restart_counts = ["", "SLURM_RESTART_COUNT=0", "SLURM_RESTART_COUNT=1", "TORCHELASTIC_RESTART_COUNT=1"]
    cases = itertools.product([False, True], restart_counts, ["", "3"], ["", "argument", "environment"])
    seen = []
    for number, (is_recorded, restarts, expects, fresh) in enumerate(cases):
        path = tmp_path / str(number)
        if templates[disk].exists():
            shutil.copytree(templates[disk], path)
        if is_recorded:
            records().note_saved(path, "id", 2)
        name, _, count = restarts.partition("=")
        with monkeypatch.context() as patch:
            for variable, value in [
                (name, count),
                (layout.Env.EXPECT_STEP, expects),
                (layout.Env.FRESH, "1" if fresh == "environment" else ""),
            ]:
                if value:
                    patch.setenv(variable, value)
            before = tree(path / "checkpoints")
            weights = np.zeros(3)
            try:
                with lastgood.Run({"weights": weights}, job=path, fresh=fresh == "argument") as run:
                    how = "resumed" if run.step == 2 else "fresh"
                    assert weights.sum() == (9.0 if how == "resumed" else 0.0)
            except StartRefusedError as error:
                how = "refused"
                assert str(path) in str(error) and "--fresh" in error.remedy
                assert not weights.any()
            case = (disk, is_recorded, restarts, expects, fresh)
            assert how == expected(*case), case
            assert tree(path / "checkpoints") == before, case
            seen.append(how)
    assert len(set(seen)) > 1


def test_a_start_that_was_refused_for_a_restart_count_is_refused_the_next_time_too(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever restarts a program again and again must not talk it into zero."""
    for count in "123":
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
        with pytest.raises(StartRefusedError, match="TORCHELASTIC_RESTART_COUNT"):
            start({"weights": np.zeros(3)})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["library", "wrapped"])
def test_a_launcher_that_is_tried_again_is_refused_again(
    kind: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.chdir(tmp_path)
    wrapping = ["--checkpoints", "out/*.pt", "--resume-arg", "--from {checkpoint}"] if kind == "wrapped" else []
    command = [sys.executable, "-c", PROGRAM, str(path)] if kind == "library" else ["touch", "ran"]
    launcher = [sys.executable, "-m", "lastgood", "run", "--job", str(path), *wrapping, "--", *command]
    for _ in range(2):
        ended = subprocess.run(launcher, capture_output=True, text=True, timeout=180, check=False)
        assert ended.returncode == StartRefusedError.exit_code, ended.stderr
        assert "SLURM_RESTART_COUNT=1" in ended.stderr
    assert not (tmp_path / "ran").exists()


def test_a_job_that_was_requeued_before_its_first_save_starts_from_zero(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live(start, 0)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert live(start, 1) == 0
    assert "starts from zero: 1 earlier attempt(s) ended before the first save" in capsys.readouterr().err


def test_a_directory_that_is_gone_is_not_made_again(start: Start, path: Path) -> None:
    live(start, 3)
    shutil.rmtree(path)
    with pytest.raises(StartRefusedError, match="saved step 1 before, and is not there now"):
        start()
    assert not path.exists()


def test_an_emptied_directory_is_left_empty(start: Start, path: Path) -> None:
    live(start, 2)
    shutil.rmtree(path)
    path.mkdir()
    with pytest.raises(StartRefusedError, match="is not there now"):
        start()
    assert not any(path.iterdir())


def test_checkpoints_without_an_identity_are_refused(start: Start, path: Path) -> None:
    live(start, 2)
    (path / "job.json").unlink()
    records().forget(path)
    with pytest.raises(StartRefusedError, match=r"2 checkpoint\(s\) but no job.json"):
        start()


def test_a_job_that_was_moved_goes_on_in_its_new_place(start: Start, path: Path, tmp_path: Path) -> None:
    live(start, 2)
    path.rename(tmp_path / "elsewhere")
    assert live(start, 3, job=tmp_path / "elsewhere") == 2


def test_newer_checkpoints_that_are_missing_are_noted(
    start: Start, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live(start, 2)
    records().note_saved(path, "id", 9)
    assert live(start, 2) == 2
    assert "note: step 9 is recorded as saved, but the newest checkpoint here is step 2" in capsys.readouterr().err


# A new start that is meant -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_after_a_new_start_nobody_goes_back_to_what_was_set_aside(
    way: str, start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live(start, 5)
    before = tree(path / "checkpoints")
    with monkeypatch.context() as patch:
        patch.setenv(layout.Env.FRESH, "1" if way == "environment" else "")
        # It dies before its first save, and that must not bring the old ones back.
        assert live(start, 0, fresh=way == "argument") == 0
    assert "attempt 2" in (said := capsys.readouterr().err) and "a new start is meant" in said
    assert live(start, 2) == 0
    assert "1 earlier attempt(s) ended before the first save" in capsys.readouterr().err
    assert live(start, 3) == 2
    after = tree(path / "checkpoints")
    assert {name: after[name] for name in before} == before
    aside = [c.name for c in catalogue.list_checkpoints(jobdir.open_job(path)) if c.is_set_aside]
    assert aside == [layout.checkpoint_name(step, 1) for step in (5, 4, 3, 2, 1)]


def test_the_new_checkpoints_of_a_new_start_are_refused_like_others_when_they_are_gone(
    start: Start, path: Path
) -> None:
    live(start, 5)
    live(start, 1, fresh=True)
    shutil.rmtree(path / "checkpoints" / layout.checkpoint_name(1, 2))
    with pytest.raises(StartRefusedError, match="saved step 1"):
        start()


def test_a_program_that_means_a_new_start_goes_on_when_its_launch_starts_it_again(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(start, 5)
    job = jobdir.open_job(path)
    for launch, began in [("one", 0), ("one", 2), ("two", 0)]:
        claimed = attempts.claim_attempt(job, launch)
        monkeypatch.setenv(layout.Env.JOB, str(path))
        monkeypatch.setenv(layout.Env.ATTEMPT, str(claimed.attempt))
        monkeypatch.setenv(layout.Env.LAUNCH, launch)
        assert live(start, began + 2, fresh=True) == began


# Damage --------------------------------------------------------------------------------------------------------


def test_the_newest_is_damaged_and_the_one_before_is_used_then_and_ever_after(
    start: Start, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live(start, 3)
    newest, before = layout.checkpoint_name(3, 1), layout.checkpoint_name(2, 1)
    flip(path, newest)
    capsys.readouterr()
    assert live(start, 0) == 2
    said = capsys.readouterr().err
    assert re.search(rf"rejected {newest}: .*rank-00000.safetensors", said)
    assert re.search(rf"attempt 2 of {path} resumed from step 2 \({before}, .*, saved .* ago, verified", said)
    assert list(marks(path)) == [newest]
    assert started(path, 2)["rejected"] == [newest]

    opened = []
    monkeypatch.setattr(
        "lastgood.runtime.resume.open_checkpoint",
        lambda job, name: opened.append(name) or reader.open_checkpoint(job, name),
    )
    assert live(start, 0) == 2
    assert opened == [before]
    assert f"rejected {newest}: rejected earlier: " in capsys.readouterr().err


def test_when_all_are_damaged_it_is_refused_and_nothing_is_deleted(start: Start, path: Path) -> None:
    live(start, 3)
    for step in (1, 2, 3):
        flip(path, layout.checkpoint_name(step, 1))
    before = tree(path / "checkpoints")
    for _ in range(2):
        with pytest.raises(StartRefusedError, match=r"3 checkpoint\(s\) are there and none can be used") as caught:
            start({"weights": np.zeros(3)})
        assert layout.checkpoint_name(3, 1) in str(caught.value) and "verify" in caught.value.safe
    assert len(marks(path)) == 3
    after = tree(path / "checkpoints")
    assert {name: after[name] for name in before} == before


def test_lower_steps_after_a_rollback_are_the_newest(start: Start, path: Path) -> None:
    live(start, 6)
    higher = [path / "checkpoints" / layout.checkpoint_name(step, 1) for step in (4, 5, 6)]
    for directory in higher:
        directory.rename(path / directory.name)
    assert live(start, 4) == 3
    # Should the higher steps appear again: they belong to a life that was given up.
    for directory in higher:
        (path / directory.name).rename(directory)
    assert live(start, 5) == 4
    assert live(start, 5) == 5
    listed = [c.name for c in catalogue.list_checkpoints(jobdir.open_job(path))]
    assert listed[:3] == [layout.checkpoint_name(5, 3), layout.checkpoint_name(4, 2), layout.checkpoint_name(6, 1)]


def test_checkpoints_of_another_job_are_passed_over(
    start: Start, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live(start, 2)
    live(start, 7, job=tmp_path / "other")
    foreign = layout.checkpoint_name(7, 1)
    shutil.copytree(tmp_path / "other" / "checkpoints" / foreign, path / "checkpoints" / foreign)
    assert live(start, 2) == 2
    assert re.search(rf"rejected {foreign}: .*job", capsys.readouterr().err)


def test_only_checkpoints_of_another_job_are_refused(start: Start, path: Path, tmp_path: Path) -> None:
    live(start, 2, job=tmp_path / "other")
    live(start, 0)
    shutil.rmtree(path / "checkpoints")
    shutil.copytree(tmp_path / "other" / "checkpoints", path / "checkpoints")
    with pytest.raises(StartRefusedError, match="none can be used"):
        start({"weights": np.zeros(3)})


@pytest.mark.parametrize("where", ["job", "manifest"])
def test_a_newer_format_is_an_error_of_its_own_and_nothing_older_is_taken_instead(
    where: str, start: Start, path: Path
) -> None:
    live(start, 2)
    document = (
        path / "job.json" if where == "job" else path / "checkpoints" / layout.checkpoint_name(2, 1) / "manifest.json"
    )
    reseal(document, lambda content: content.update(format=layout.CONSTANTS_FORMAT + 1))
    before = tree(path / "checkpoints")
    weights = np.zeros(3)
    with pytest.raises(FormatVersionError, match="newer") as caught:
        start({"weights": weights})
    assert caught.value.exit_code == 76
    assert not weights.any()
    assert tree(path / "checkpoints") == before


def test_a_damaged_identity_is_damage_and_not_a_new_job(start: Start, path: Path) -> None:
    live(start, 2)
    identity = (path / "job.json").read_bytes()
    (path / "job.json").write_bytes(identity[:-9])
    with pytest.raises(DamagedError, match=r"job\.json"):
        start()
    (path / "job.json").write_bytes(identity)
    assert live(start, 2) == 2


# Directories that cannot be read or written ---------------------------------------------------------------------


@pytest.mark.parametrize("which", ["checkpoints", "attempts", "job"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_directory_that_cannot_be_listed_is_never_an_empty_one(
    which: str, number: int, start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(start, 2)
    broken = path if which == "job" else path / which
    listdir, read_bytes = os.listdir, os.open

    def failing_list(at: Any = ".") -> list[str]:
        if Path(os.fspath(at)) == broken:
            raise OSError(number, os.strerror(number))
        return listdir(at)

    def failing_open(at: Any, *args: Any, **kwargs: Any) -> int:
        if which == "job" and Path(os.fspath(at)) == path / "job.json":
            raise OSError(number, os.strerror(number))
        return read_bytes(at, *args, **kwargs)

    weights = np.zeros(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", failing_list)
        patch.setattr(os, "open", failing_open)
        with pytest.raises(StorageError, match=os.strerror(number)) as caught:
            start({"weights": weights})
    assert str(broken) in str(caught.value) and caught.value.remedy
    assert not weights.any()
    assert live(start, 2) == 2


def test_a_checkpoint_that_cannot_be_read_now_is_not_marked_for_ever(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(start, 2)

    def failing(job: jobdir.JobDirectory, name: str) -> reader.Checkpoint:
        if name == layout.checkpoint_name(2, 1):
            raise OSError(errno.EIO, "Input/output error")
        return reader.open_checkpoint(job, name)

    with monkeypatch.context() as patch:
        patch.setattr("lastgood.runtime.resume.open_checkpoint", failing)
        assert live(start, 0) == 1
    assert not marks(path)
    assert live(start, 0) == 2


def run_program(path: Path, *, prefix: tuple[str, ...] = (), **popen: Any) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, **popen)


@pytest.mark.slow
@pytest.mark.parametrize("which", [".", "checkpoints", "attempts"])
def test_a_directory_without_permission_is_never_a_new_job(which: str, start: Start, path: Path) -> None:
    live(start, 2)
    (path / which).chmod(0o000)
    try:
        ended = run_program(path, preexec_fn=without_root_powers)
    finally:
        (path / which).chmod(0o755)
    assert ended.returncode == PermissionDeniedError.exit_code == 77, ended.stderr
    assert ended.stderr.startswith("lastgood: cannot ") and "Traceback" not in ended.stderr
    assert str((path / which).resolve()) in ended.stderr
    assert live(start, 2) == 2


@pytest.mark.slow
def test_a_parent_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o555)
    ended = run_program(parent / "job", preexec_fn=without_root_powers)
    assert ended.returncode == 77, ended.stderr
    assert str(parent / "job") in ended.stderr and "Traceback" not in ended.stderr
    assert not any(parent.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
def test_a_read_only_file_system_is_named_and_nothing_is_taken_for_new(
    is_new: bool, start: Start, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    prefix = ("unshare", "-m", "sh", "-c", mount, str(disk))
    if (
        shutil.which("unshare") is None
        or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs the right to mount")
    if not is_new:
        live(start, 2, job=disk / "job")
    before = tree(disk)
    ended = run_program(disk / "job", prefix=prefix)
    assert ended.returncode == StorageError.exit_code, ended.stderr
    assert "read-only" in ended.stderr and str(disk / "job") in ended.stderr and "Traceback" not in ended.stderr
    assert tree(disk) == before


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_is_no_place_for_a_job(below: str, start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(StorageError, match="no directory that a job can live in"):
        start(job=tmp_path / "file" / below)
    assert (tmp_path / "file").read_text() == "precious"


# What else lies about --------------------------------------------------------------------------------------------


def test_what_is_not_ours_among_the_checkpoints_does_not_count_and_stays(
    start: Start, path: Path, tmp_path: Path
) -> None:
    live(start, 3)
    checkpoints = path / "checkpoints"
    whole = checkpoints / layout.checkpoint_name(3, 1)
    for name in ["step_99", "99", "000000000099-0001.bak", "000000000099-1", ".000000000099-0001", "٠00000000099-0001"]:
        shutil.copytree(whole, checkpoints / name)
    (checkpoints / "notes.txt").write_text("mine")
    (checkpoints / layout.checkpoint_name(98, 9)).write_text("only a file")
    shutil.copytree(whole, tmp_path / "outside")
    (checkpoints / "link").symlink_to(tmp_path / "outside")
    unfinished = checkpoints / layout.checkpoint_name(97, 1)
    unfinished.mkdir()
    for name in ["manifest.json.part", "rank-00000.json", "mine.txt"]:
        (unfinished / name).write_text("{}")
    before = tree(checkpoints)

    assert live(start, 3) == 3
    after = tree(checkpoints)
    gone = set(before) - set(after)
    assert gone == {f"{unfinished.name}/manifest.json.part", f"{unfinished.name}/rank-00000.json"}
    assert {name: before[name] for name in after} == after


def test_a_clock_that_jumps_back_changes_nothing(start: Start, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live(start, 3)
    real = time.time
    for back, until in [(10 * 365 * 86400, 5), (20 * 365 * 86400, 7)]:
        monkeypatch.setattr(time, "time", lambda back=back: real() - back)
        assert live(start, until, keep=lastgood.Keep(last=2)) == until - 2
    assert [c.name for c in catalogue.list_checkpoints(jobdir.open_job(path))] == [
        layout.checkpoint_name(7, 3),
        layout.checkpoint_name(6, 3),
    ]


# Who runs the job ----------------------------------------------------------------------------------------------


def test_without_any_job_directory_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no job directory") as caught:
        lastgood.Run({})
    assert "job=" in caught.value.remedy and "lastgood run" in caught.value.remedy
    assert not any(tmp_path.iterdir())


def test_the_launchers_job_goes_before_the_programs(
    start: Start, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(layout.Env.JOB, str(path))
    live(start, 2, job=tmp_path / "other")
    assert jobdir.open_job(path)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "name", [layout.Env.ATTEMPT, layout.Env.LAUNCHER_PID, layout.Env.EXPECT_STEP, layout.Env.DEADLINE]
)
def test_a_variable_of_ours_that_holds_nonsense_is_named(
    name: str, start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "soon")
    with pytest.raises(UsageError, match=name):
        start()
    assert not path.exists()


def test_a_second_program_on_the_same_job_is_turned_away_until_the_first_has_ended(start: Start, path: Path) -> None:
    first = start({"weights": np.zeros(3)})
    before = attempts.attempt_numbers(jobdir.open_job(path))
    with pytest.raises(JobBusyError) as caught:
        start()
    assert caught.value.exit_code == 86
    assert str(path) in caught.value.what and caught.value.remedy
    assert attempts.attempt_numbers(jobdir.open_job(path)) == before
    # The first does not notice.
    for step in first.steps(2):
        assert step
    first.close()
    assert start({"weights": np.zeros(3)}).step == 2


def test_a_start_that_failed_lets_go_of_the_job(start: Start, path: Path) -> None:
    live(start, 1)
    with pytest.raises(LastgoodError):
        start({"weights": np.zeros(4)})
    assert live(start, 1) == 1


def test_starts_again_within_one_attempt_of_a_launcher_are_attempts_of_their_own(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = attempts.claim_attempt(jobdir.create_job(path), "token")
    monkeypatch.setenv(layout.Env.JOB, str(path))
    monkeypatch.setenv(layout.Env.ATTEMPT, str(claimed.attempt))
    monkeypatch.setenv(layout.Env.LAUNCH, "token")
    assert [live(start, until) for until in (2, 4, 6)] == [0, 2, 4]
    job = jobdir.open_job(path)
    assert attempts.attempt_numbers(job) == [1, 2, 3]
    assert {record.launch for n in (1, 2, 3) if (record := attempts.read_attempt(job, n))} == {"token"}
    assert [started(path, n)["step"] for n in (1, 2, 3)] == [0, 2, 4]


def test_a_loop_that_would_go_backwards_is_refused_and_changes_nothing(start: Start, path: Path) -> None:
    live(start, 5)
    run = start({"weights": np.zeros(3)})
    before = tree(path / "checkpoints")
    with pytest.raises(UsageError, match=r"has done 5 steps already; steps\(4\) would go backwards"):
        next(run.steps(4))
    assert list(run.steps(5)) == []
    assert tree(path / "checkpoints") == before


# What it says ----------------------------------------------------------------------------------------------------


def test_each_start_says_which_of_the_three_it_is_and_why(
    start: Start, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live(start, 2)
    assert f"lastgood: attempt 1 of {path} starts from zero: the job has not run before\n" in capsys.readouterr().err
    live(start, 2)
    assert f"lastgood: attempt 2 of {path} resumed from step 2 (" in capsys.readouterr().err
    live(start, 0, fresh=True)
    said = capsys.readouterr().err
    assert f"lastgood: attempt 3 of {path} starts from zero: a new start is meant" in said
    assert [started(path, n)["how"] for n in (1, 2, 3)] == ["fresh", "resumed", "fresh"]


@pytest.mark.slow
def test_a_refused_start_ends_the_program_with_its_message_and_its_code(start: Start, path: Path) -> None:
    live(start, 2)
    shutil.rmtree(path)
    ended = run_program(path)
    assert ended.returncode == StartRefusedError.exit_code == 80
    assert ended.stderr.startswith("lastgood: will not start a new job in ") and "Traceback" not in ended.stderr
    assert "what to do: " in ended.stderr
