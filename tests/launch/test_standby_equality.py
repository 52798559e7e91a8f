"""A start from a standby and a cold one, compared in everything that a program can see of them."""

import difflib
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Ended, Launcher
from .observing import OBSERVER

pytestmark = pytest.mark.slow


class Seen:
    """What an attempt saw of its start, and others of its end."""

    def __init__(self, launcher: Launcher, ended: Ended) -> None:
        text = (launcher.directory / "observations.json").read_text()
        # What has to differ from one launch to the next.
        text = text.replace(str(launcher.job), "<job>")
        text = re.sub(r"/dev/shm/lastgood-heartbeats-\w+", "<heartbeats>", text)
        text = re.sub(r"LASTGOOD_(LAUNCH|LAUNCHER_PID)=\w+", r"LASTGOOD_\1=...", text)
        text = re.sub(r',\s*"LASTGOOD_STANDBY=1"', "", text)
        # What torchrun finds anew at each start.
        found_anew = r"(MASTER_PORT|TORCHELASTIC_RUN_ID|TORCHELASTIC_ERROR_FILE)(=|\": \"b')[^\"']*"
        text = re.sub(found_anew, r"\1\2...", text)
        self.observed: dict[str, Any] = json.loads(text)
        self.code = ended.code
        self.out = ended.out.splitlines()
        self.err = [line for line in ended.err.splitlines() if not line.startswith("lastgood: ")]

    def modules_at_start(self) -> set[str]:
        return set(self.observed["start"].pop("modules"))


def both(launcher: Launcher, command: list[Any], **popen: Any) -> tuple[Seen, Seen]:
    """The second attempt of two launches: after a cold start, and from a standby."""
    launcher.environment["OBSERVATIONS"] = str(launcher.directory / "observations.json")
    found = []
    for number, options in enumerate(([], ["--standby"])):
        launcher.job = launcher.directory / f"job-{number}"
        with open(launcher.directory / "input", "w+") as file:
            file.write("words to read\n")
            file.seek(0)
            process = launcher.start(*options, "--", *command, **{"stdin": file, **popen})
        found.append(Seen(launcher, launcher.end_of(process)))
        assert launcher.outcomes() == ["killed", "program error"]
        assert launcher.event(2, "launched")["is_standby"] is (number == 1), launcher.output(-1, "err")
    return found[0], found[1]


def assert_same(cold: Seen, warm: Seen) -> None:
    imported = cold.modules_at_start()
    assert imported < warm.modules_at_start(), "what a standby is for"
    before, after = (json.dumps(seen.observed, indent=1, sort_keys=True).splitlines() for seen in (cold, warm))
    assert before == after, "\n".join(difflib.unified_diff(before, after, "cold", "standby", lineterm=""))
    assert (cold.code, cold.out, cold.err) == (warm.code, warm.out, warm.err)


@pytest.fixture
def observer(launcher: Launcher, script: Callable[[str, str], Path]) -> Path:
    return script("observer.py", OBSERVER.replace("IMPORTS", ""))


def test_a_script_sees_the_same(launcher: Launcher, observer: Path) -> None:
    cold, warm = both(launcher, [sys.executable, observer, "--option", "a b", "\udce9"])
    assert_same(cold, warm)
    assert cold.code == 1
    assert cold.err[-2:] == ["KeyError: 'an end with a trace'", "with a note"]
    assert cold.out[-2:] == ["a thread's end is waited for", "at exit"]


def under_another_name(directory: Path) -> Path:
    """This interpreter with all that is installed for it."""
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "py").symlink_to(sys.executable)
    if sys.prefix != sys.base_prefix:
        for name in ("pyvenv.cfg", "lib"):
            (directory / name).symlink_to(Path(sys.prefix, name))
    return directory / "bin" / "py"


def test_a_script_in_another_directory_with_options_of_the_interpreter_and_of_the_shell_sees_the_same(
    launcher: Launcher, observer: Path, tmp_path: Path
) -> None:
    python = under_another_name(tmp_path / "other")
    (tmp_path / "link.py").symlink_to(observer)
    words = ["env", "HERE=1", "LANG=C", python, "-u", "-X", "utf8", "-W", "error::BytesWarning", "link.py"]
    launcher.environment |= {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    launcher.environment["PYTHONPATH"] = os.pathsep.join(filter(None, ("relative", os.environ.get("PYTHONPATH"))))

    def set_up() -> None:
        os.umask(0o027)
        os.nice(3)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    cold, warm = both(launcher, words, preexec_fn=set_up)
    assert_same(cold, warm)
    assert cold.observed["kernel"]["Umask"] == "0027"
    assert cold.observed["kernel"]["nice"] == str(os.nice(0) + 3)


def test_a_module_sees_the_same(launcher: Launcher, observer: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("import package.part\n")
    (package / "part.py").write_text("")
    observer.rename(package / "train.py")
    assert_same(*both(launcher, [sys.executable, "-m", "package.train", "x"]))


def test_a_script_with_torch_sees_the_same(launcher: Launcher, script: Callable[[str, str], Path]) -> None:
    pytest.importorskip("torch")
    observer = script(
        "observer.py", OBSERVER.replace("IMPORTS", "import torch; torch.ones(300, 300) @ torch.ones(300, 300)")
    )
    cold, warm = both(launcher, [sys.executable, observer])
    assert_same(cold, warm)
    assert int(cold.observed["kernel"]["c threads"]) == int(warm.observed["kernel"]["c threads"])


def test_a_rank_of_torchrun_sees_the_same(launcher: Launcher, script: Callable[[str, str], Path]) -> None:
    pytest.importorskip("torch")
    observer = script("observer.py", OBSERVER.replace("IMPORTS", "import torch"))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    cold, warm = both(launcher, [*torchrun, observer, "--option"])
    assert cold.modules_at_start() < warm.modules_at_start()
    assert cold.observed == warm.observed
    assert cold.code == warm.code


TRAINING = """
import hashlib, os, random, signal, sys, time
import numpy as np
import torch
from torch import nn
import lastgood

random.seed(1)
np.random.seed(2)
torch.manual_seed(3)
model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.3), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
run = lastgood.Run({"model": model, "optimizer": optimizer}, every=3)
for step in run.steps(40):
    x = torch.randn(16, 20) * random.random() + torch.from_numpy(np.random.rand(16, 20)).float()
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    attempt = os.environ["LASTGOOD_ATTEMPT"]
    if "KILLED" in os.environ and step == {"1": 11, "2": 23}.get(attempt):
        journal = os.path.join(os.environ["LASTGOOD_JOB"], "attempts", f"000{attempt}.events.jsonl")
        end = time.monotonic() + 180
        while '"kind":"standby"' not in open(journal).read() and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
digest = hashlib.sha256()
for value in model.state_dict().values():
    digest.update(value.numpy().tobytes())
print(digest.hexdigest(), float(loss), random.random(), np.random.rand(), torch.rand(1).item(), flush=True)
"""


def test_a_training_run_that_is_killed_twice_and_goes_on_in_standbys_ends_in_the_same_bits(
    launcher: Launcher, script: Callable[[str, str], Path]
) -> None:
    pytest.importorskip("torch")
    train = script("train.py", TRAINING)
    whole = launcher.run(sys.executable, train)
    launcher.environment["KILLED"] = "1"
    launcher.job = launcher.directory / "killed"
    killed = launcher.run("--standby", "--", sys.executable, train)
    assert [launcher.event(n, "launched")["is_standby"] for n in (1, 2, 3)] == [False, True, True], killed.err
    assert [launcher.event(n, "started")["step"] for n in (2, 3)] == [9, 21]
    assert whole.code == killed.code == 0
    assert whole.out == killed.out


SUBINTERPRETER = """
import os, signal, sys, time
import numpy as np
import lastgood
x = np.zeros(2)
run = lastgood.Run({"x": x}, every=1)
for step in run.steps(6):
    x += step
    if step == 3 and os.environ["LASTGOOD_ATTEMPT"] == "1":
        journal = os.path.join(os.environ["LASTGOOD_JOB"], "attempts", "0001.events.jsonl")
        while '"kind":"standby"' not in open(journal).read():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
inner = interpreters.create()
interpreters.run_string(inner, "import sys; print('sitecustomize' in sys.modules, any('parking' in p for p in sys.path), flush=True)")
"""


def test_a_second_interpreter_within_the_process_finds_nothing_of_the_parking_place(
    launcher: Launcher, script: Callable[[str, str], Path]
) -> None:
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    pytest.importorskip(name)
    train = script("train.py", f"import {name} as interpreters\n" + SUBINTERPRETER)
    ended = launcher.run("--standby", "--", sys.executable, train)
    assert launcher.event(2, "launched")["is_standby"], ended.err
    assert ended.out == "False False\n", ended.err
