"""Whether a program's exit code becomes the job's: what the audit says is what bash does."""

import subprocess
from pathlib import Path

import pytest

from lastgood.audit.batch.exits import carrier, lost_code, main_work
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.source import Source

LOST = {
    "srun train\necho done": "later",
    "srun train\ndate\n": "later",
    "srun train; x=1": "later",
    "srun train\nx=$(date)": "later",
    "srun train\nif [ $? -ne 0 ]; then echo failed; fi": "later",
    "srun train\nif [ -f none ]; then rm none; fi": "later",
    "srun train\nfor f in none*; do echo $f; done": "later",
    "srun train\necho over\nexit $?": "later",
    "srun train\necho over\nexit": "later",
    "srun train\nrc=$?\necho code $rc": "later",
    "srun train\nif [ $? -ne 0 ]; then echo failed >&2; fi": "later",
    'srun train\necho "code $?"': "later",
    "srun train\nexit 0": "exit",
    "srun train && echo fine\nexit 0": "",
    "srun train | cat": "pipe",
    "set -e\nsrun train 2>&1 | cat\necho on": "pipe",
    "{ srun train; } | cat": "pipe",
    "srun train | cat || exit 1\necho over": "pipe",
    "set -o pipefail\nsrun train 2>&1 | cat | cat\necho over": "later",
    "f() { srun train; return 0; }\nf": "later",
    "srun train || true": "rescued",
    "set -e\nsrun train || echo failed\necho on": "rescued",
    "srun train || { echo 'failed, exit'; }": "rescued",
    "f() { srun train; }\nf\necho done": "later",
    "f() { srun train; echo done; }\nf": "later",
    'bash -c "srun train; echo done"': "later",
    'bash -c "srun train"\necho done': "later",
    "set -e\nset +e\nsrun train\necho": "later",
}
KEPT = [
    "srun train",
    "srun train && echo fine",
    "exec srun train\necho done",
    "set -e\nsrun train\necho done",
    "set -euo pipefail\nsrun train | cat\necho done",
    "set -o errexit\nsrun train\necho done",
    "set -o pipefail\nsrun train | cat",
    "set -o pipefail\nsrun train | cat || exit 4\necho over",
    "set -o pipefail\nsrun train | cat\nrc=$?\ndate | cat\nexit $rc",
    "srun train\nexit",
    "srun train\nexit $?",
    "srun train\nrc=$?\necho over\nexit $rc",
    "srun train | cat\nexit ${PIPESTATUS[0]}",
    "srun train\nif [ $? -ne 0 ]; then exit 1; fi\necho fine",
    "srun train\nrc=$?\nif [ $rc -ne 0 ]; then echo failed; exit 4; fi\necho fine",
    "srun train || exit 1\necho fine",
    "srun train || { echo failed; exit 1; }\necho fine",
    "srun train\n[ $? -eq 0 ]",
    "again() { exit 7; }\nsrun train || again",
    "srun train || srun train --smaller",
    "srun train || ./not-there",
    "if srun train; then echo fine; else exit 1; fi",
    "f() { srun train; }\nf",
    "f() { srun train; return $?; }\nf",
    'bash -c "srun train"',
    "trap 'exit 1' ERR\nsrun train\necho done",
    "srun train\ncase $? in 0) ;; *) exit 6;; esac\necho fine",
    "srun train\nstatus=$?\nrm -f none\ntest $status -eq 0",
    "srun train\nstatus=$?\ndate\n[ $status -eq 0 ]",
    "srun train\nstatus=$?\ndate\n(( status == 0 ))",
]


def script(text: str) -> BatchScript:
    return BatchScript(Source("job.sh", f"#!/bin/bash\n#SBATCH -t 1-0\n{text}\n".encode()))


def verdict(text: str) -> str:
    parsed = script(text)
    found = main_work(parsed)
    assert found is not None
    lost = lost_code(parsed, found[0])
    return lost.how if lost is not None else ""


@pytest.mark.parametrize("text", LOST)
def test_a_lost_code_is_seen(text: str) -> None:
    assert verdict(text) == LOST[text]


@pytest.mark.parametrize("text", KEPT)
def test_a_kept_code_is_not_called_lost(text: str) -> None:
    assert verdict(text) == ""


def test_a_code_that_is_written_down_is_not_called_lost() -> None:
    assert verdict('srun train\nrc=$?\nif [ $rc -ne 0 ]; then echo failed >> "table.tsv"; fi') == ""


def test_a_test_in_a_here_document_is_none_of_the_script() -> None:
    text = "srun train\ncat > after.sh <<EOF\n[ $? -eq 0 ]\nEOF\nif [ -f none ]; then rm none; fi"
    assert verdict(text) == "later"


def test_a_line_with_many_brackets_is_looked_at_once() -> None:
    brackets = "[ ] " * 50_000
    assert verdict(f"srun train\n# {brackets}\nif [ -f none ]; then rm none; fi") == "later"
    assert verdict(f"srun train\n# {brackets}\nif [ $? = 0 ]; then rm none; fi") == ""


@pytest.mark.parametrize("text", ["srun train", "f() { srun train; }\nf", "srun train & pid=$!\nwait $pid"])
def test_what_is_rescued_is_what_stands_in_front_of_the_bars(text: str) -> None:
    parsed = script(f"{text} || true")
    found = main_work(parsed)
    assert found is not None
    lost = lost_code(parsed, carrier(parsed, found[0]))
    assert lost is not None and lost.rescued is not None
    assert (lost.rescued.around.rescued_by, lost.rescued.span.line) == ("true", 2 + text.count("\n") + 1)


@pytest.mark.slow
def test_bash_does_what_the_audit_says(tmp_path: Path) -> None:
    (tmp_path / "srun").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "srun").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for text in [*LOST, *KEPT]:
        done = subprocess.run(["bash", "-c", text], env=env, cwd=tmp_path, capture_output=True, check=False)
        assert (done.returncode == 0) == (text in LOST), text


def test_the_work_is_what_is_spread_over_tasks() -> None:
    found = main_work(script("python prepare.py\nsrun python train.py\npython plot.py"))
    assert found is not None and found[1].python_script == "train.py"
    assert main_work(script("module load x\ncd y\necho z")) is None
