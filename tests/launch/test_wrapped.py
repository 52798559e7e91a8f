"""Commands that know nothing of us but can resume: which checkpoint they get, and when they get none."""

import gzip
import json
import sys
import time
import zipfile
from pathlib import Path

import pytest

from .conftest import Ended, Launcher, without_root_powers
from .programs import CHECKPOINTING

pytestmark = pytest.mark.slow


@pytest.fixture
def program(script) -> Path:
    return script("train.py", CHECKPOINTING)


def wrapped(
    launcher: Launcher, program: Path, *words: object, pattern: str = "out/*.json", options: tuple[str, ...] = ()
) -> Ended:
    return launcher.run(
        "--resume-arg",
        "--resume-from {checkpoint}",
        "--checkpoints",
        pattern,
        *options,
        "--",
        sys.executable,
        program,
        *words,
    )


def put_json(directory: Path, **files: object) -> None:
    for name, content in files.items():
        path = directory / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps({"step": content}))


def test_one_command_line_starts_fresh_and_then_resumes_by_number(launcher: Launcher, program: Path) -> None:
    ended = wrapped(launcher, program, 12, "1:10")
    assert ended.code == 0
    assert ended.out == "resumed from 0\nresumed from 10\ndone at 12\n"
    assert "fresh start: the job has not run before" in ended.err
    assert "resuming from out/step_10.json" in ended.err
    assert launcher.outcomes() == ["killed", "finished"]
    assert launcher.event(2, "started")["step"] == 10
    again = wrapped(launcher, program, 12, "1:10")
    assert again.out == "resumed from 12\ndone at 12\n"


def test_the_padding_of_numbers_does_not_matter(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    put_json(tmp_path / "out", step_009999=9999, step_0010000=10000)
    assert "resumed from 10000\n" in wrapped(launcher, program, 5).out


def test_a_damaged_newest_one_is_passed_over_with_its_reason(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    put_json(tmp_path / "out", step_3=3, step_4='{"step": 4', step_5="")
    ended = wrapped(launcher, program, 3)
    assert "resumed from 3\n" in ended.out
    assert "not used: out/step_5.json: it is empty" in ended.err
    assert "not used: out/step_4.json: it is not JSON" in ended.err


def test_temporary_names_never_count(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    put_json(tmp_path / "out", step_3=3, tmp_step_9=9)
    (tmp_path / "out" / "step_8.json.tmp").write_text('{"step": 8}')
    (tmp_path / "out" / ".step_7.json").write_text('{"step": 7}')
    assert "resumed from 3\n" in wrapped(launcher, program, 3, pattern="out/*").out


def test_an_emptied_directory_is_refused_and_fresh_is_the_way_out(
    launcher: Launcher, program: Path, tmp_path: Path
) -> None:
    assert wrapped(launcher, program, 4, "1:2", options=("--no-restart",)).code == 137
    for file in (tmp_path / "out").iterdir():
        file.unlink()
    ended = wrapped(launcher, program, 4)
    assert ended.code == 80
    assert "resumed" not in ended.out
    assert "step 2" in ended.err
    (tmp_path / "out").rmdir()
    assert wrapped(launcher, program, 4).code == 80
    ended = wrapped(launcher, program, 4, options=("--fresh",))
    assert (ended.code, ended.out) == (0, "resumed from 0\ndone at 4\n")


def test_damage_to_all_of_them_is_refused(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    put_json(tmp_path / "out", step_1="", step_2="{")
    ended = wrapped(launcher, program, 4)
    assert ended.code == 80
    assert "2 checkpoint(s) are there and none can be used" in ended.err


def test_a_restart_count_of_the_scheduler_makes_an_empty_directory_suspicious(
    launcher: Launcher, program: Path
) -> None:
    launcher.environment["SLURM_RESTART_COUNT"] = "1"
    assert wrapped(launcher, program, 4).code == 80


def test_fresh_sets_old_checkpoints_aside_for_good(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    put_json(tmp_path / "out", step_50=50)
    ended = wrapped(launcher, program, 6, "1:3", options=("--fresh",))
    assert ended.out == "resumed from 0\nresumed from 3\ndone at 6\n"
    assert "resumed from 6\n" in wrapped(launcher, program, 6).out


def test_a_directory_that_may_not_be_read_is_refused(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    put_json(tmp_path / "out", step_3=3)
    (tmp_path / "out").chmod(0)
    options = ["--resume-arg", "--resume-from {checkpoint}", "--checkpoints", "out/*.json"]
    command = [*options, "--", sys.executable, program, 4]
    try:
        ended = launcher.run(*command, preexec_fn=without_root_powers)
    finally:
        (tmp_path / "out").chmod(0o755)
    assert ended.code == 77
    assert "cannot look for checkpoints in out" in ended.err
    assert "resumed" not in ended.out


def test_a_file_where_the_directory_should_be_is_refused(launcher: Launcher, program: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    ended = wrapped(launcher, program, 4)
    assert ended.code == 74
    assert "resumed" not in ended.out


def test_no_newer_checkpoint_in_two_attempts_ends_the_job(launcher: Launcher) -> None:
    command = "mkdir -p out; [ -e out/s_1 ] || echo 1 > out/s_1; kill -9 $$"
    ended = launcher.run("--checkpoints", "out/s_*", "--", "bash", "-c", command)
    assert ended.code == 82
    assert launcher.outcomes() == ["killed"] * 3


def test_a_checkpoint_that_is_written_anew_under_its_name_is_progress(launcher: Launcher) -> None:
    command = "mkdir -p out; echo $LASTGOOD_ATTEMPT > out/last; [ $LASTGOOD_ATTEMPT -ge 5 ] || kill -9 $$"
    assert launcher.run("--checkpoints", "out/last", "--", "bash", "-c", command).code == 0
    assert len(launcher.outcomes()) == 5


@pytest.mark.parametrize("pattern", ["out/*.json", "out/v2.json", "out/v*_2.json"])
def test_only_a_higher_number_is_progress_where_numbers_are_what_differs(launcher: Launcher, pattern: str) -> None:
    names = ["step_1.json", "step_2.json", "v2.json", "va_2.json"]
    write = "; ".join(f"echo $LASTGOOD_ATTEMPT > out/{name}" for name in names[: 2 if pattern == "out/*.json" else 4])
    command = f"mkdir -p out; {write}; [ $LASTGOOD_ATTEMPT -ge 5 ] || kill -9 $$"
    ended = launcher.run("--checkpoints", pattern, "--", "bash", "-c", command)
    if pattern == "out/*.json":
        # A command that begins from zero each time, whatever it is told.
        assert ended.code == 82
        assert launcher.outcomes() == ["killed"] * 3
    else:
        # One name that is written anew; its number belongs to the pattern.
        assert ended.code == 0


def test_a_pattern_that_matches_nothing_is_said_at_the_start_and_at_the_end(launcher: Launcher) -> None:
    ended = launcher.run(
        "--checkpoints", "outt/*.bin", "--", "bash", "-c", "mkdir -p out; echo > out/1.bin; kill -9 $$"
    )
    hint = "nothing matches --checkpoints 'outt/*.bin' (no directory outt)"
    assert f"fresh start: the job has not run before; {hint}\n" in ended.err
    assert ended.code == 82
    assert f"without a newer checkpoint (the last one: ended by SIGKILL); {hint}" in ended.err
    (launcher.directory / "outt").mkdir()
    assert (
        "nothing matches --checkpoints 'outt/*.bin'\n" in launcher.run("--checkpoints", "outt/*.bin", "--", "true").err
    )


def test_paths_with_spaces_and_dashes_stay_one_argument(launcher: Launcher, tmp_path: Path) -> None:
    directory = tmp_path / "my runs"
    directory.mkdir()
    (directory / "step 7.bin").write_text("x")
    program = "import os, sys\nprint(sys.argv[1:])\nprint(os.environ['LASTGOOD_CHECKPOINT'])"
    ended = launcher.run(
        "--resume-arg",
        "--from={checkpoint} 'and more'",
        "--checkpoints",
        "my runs/*.bin",
        "--",
        sys.executable,
        "-c",
        program,
        "own",
    )
    assert ended.out == f"['own', '--from=my runs/step 7.bin', 'and more']\n{directory / 'step 7.bin'}\n"
    (tmp_path / "-x9").write_text("x")
    ended = launcher.run("--resume-arg", "{checkpoint}", "--checkpoints=-x*", "--", "echo")
    assert ended.out == "./-x9\n"


def test_an_incomplete_directory_is_passed_over_for_the_complete_one_before(launcher: Launcher, tmp_path: Path) -> None:
    for step, names in ((400, ("model.bin", "optimizer.pt", "global_step400")), (500, ("model.bin", "global_step500"))):
        directory = tmp_path / f"checkpoint-{step}"
        directory.mkdir()
        for name in names:
            if name.endswith(".pt"):
                with zipfile.ZipFile(directory / name, "w") as archive:
                    archive.writestr("archive/data.pkl", b"x" * 100)
            else:
                (directory / name).write_text("x")
    ended = launcher.run("--resume-arg", "{checkpoint}", "--checkpoints", "checkpoint-*", "--", "echo")
    assert ended.out == "checkpoint-400\n"
    assert "not used: checkpoint-500: it lacks optimizer.pt, which the others have" in ended.err


def test_a_shard_that_an_index_lists_and_is_not_there_makes_a_directory_incomplete(
    launcher: Launcher, tmp_path: Path
) -> None:
    for step, shards in ((1, 2), (2, 1)):
        directory = tmp_path / f"checkpoint-{step}"
        directory.mkdir()
        (directory / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"a": "model-1.bin", "b": "model-2.bin"}})
        )
        for shard in range(1, shards + 1):
            (directory / f"model-{shard}.bin").write_text("x")
    ended = launcher.run("--resume-arg", "{checkpoint}", "--checkpoints", "checkpoint-*", "--", "echo")
    assert ended.out == "checkpoint-1\n"


def test_two_stars_look_into_directories(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "out" / "epoch_2" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "epoch_10" / "deep").mkdir(parents=True)
    for epoch in (2, 10):
        (tmp_path / "out" / f"epoch_{epoch}" / "deep" / "model.bin").write_text("x")
    ended = launcher.run("--resume-arg", "{checkpoint}", "--checkpoints", "out/**/model.bin", "--", "echo")
    assert ended.out == "out/epoch_10/deep/model.bin\n"


class TestSoundness:
    """Each format: whole is taken, damaged is passed over for the one before."""

    def pick(self, launcher: Launcher, suffix: str) -> str:
        return launcher.run("--resume-arg", "{checkpoint}", "--checkpoints", f"s_*{suffix}", "--", "echo").out.strip()

    def check(self, launcher: Launcher, suffix: str, content: bytes, *, flip: bool = True) -> None:
        one, two = launcher.directory / f"s_1{suffix}", launcher.directory / f"s_2{suffix}"
        one.write_bytes(content)
        two.write_bytes(content)
        assert self.pick(launcher, suffix) == two.name
        two.write_bytes(content[:-1])
        assert self.pick(launcher, suffix) == one.name
        two.write_bytes(content[: len(content) // 2])
        assert self.pick(launcher, suffix) == one.name
        two.write_bytes(bytes(len(content)))
        assert self.pick(launcher, suffix) == one.name
        if flip:
            at = content.index(b"payload")
            two.write_bytes(content[:at] + b"pAyload" + content[at + 7 :])
            assert self.pick(launcher, suffix) == one.name

    def test_zip_archives(self, launcher: Launcher, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "x", "w") as archive:
            archive.writestr("archive/data.pkl", b"payload" * 50)
            archive.writestr("archive/data/0", b"more" * 50)
        for suffix in (".pt", ".npz"):
            self.check(launcher, suffix, (tmp_path / "x").read_bytes())

    def test_gzip(self, launcher: Launcher) -> None:
        self.check(launcher, ".gz", gzip.compress(b"payload" * 50), flip=False)

    def test_numpy(self, launcher: Launcher, tmp_path: Path) -> None:
        import numpy as np

        np.save(tmp_path / "x.npy", np.arange(100.0).reshape(4, 25))
        self.check(launcher, ".npy", (tmp_path / "x.npy").read_bytes(), flip=False)

    def test_safetensors(self, launcher: Launcher, tmp_path: Path) -> None:
        import numpy as np
        from safetensors.numpy import save

        self.check(launcher, ".safetensors", save({"w": np.arange(100.0)}), flip=False)


def test_what_torch_writes_is_whole_and_is_never_unpickled(launcher: Launcher, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.arange(1000.0)}, tmp_path / "step_1.pt")
    torch.save({"w": torch.arange(1000.0)}, tmp_path / "step_2.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "step_3.pt").write_bytes(b"cos\nsystem\n(S'touch was-run'\ntR.")
    ended = launcher.run("--resume-arg", "{checkpoint}", "--checkpoints", "step_*.pt", "--", "echo")
    assert ended.out == "step_2.pt\n"
    assert not (tmp_path / "was-run").exists()


def test_what_was_saved_is_remembered_while_it_runs(launcher: Launcher, program: Path) -> None:
    """A launcher that is killed must not take the knowledge with it."""
    assert wrapped(launcher, program, 3).code == 0
    committed = [e["data"]["step"] for e in launcher.events(1) if e["kind"] == "committed"]
    assert committed == [3]
    assert abs(launcher.events(1)[0]["at"] - time.time()) < 600
