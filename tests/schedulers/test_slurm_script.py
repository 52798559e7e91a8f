"""The batch script is short, and neither a shell nor sbatch misreads what is in it."""

import shutil
import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.schedulers.slurm_script import BatchScript, batch_script, output_pattern, quoted

PLAIN = BatchScript(
    name="x",
    job="/runs/x",
    output="/runs/x/slurm-%j.out",
    command=["srun", "python", "train.py"],
    python="/usr/bin/python3",
)
NASTY = msgspec.structs.replace(
    PLAIN,
    name='it\'s # "mine"',
    job="/my runs/100% $HOME/it's",
    output=output_pattern("/my runs/100% $HOME/it's", is_array=False),
    command=["sh", "-c", 'echo "$SLURM_PROCID" `id` \\ it\'s', "two words", "", "*", "~", "{a,b}", "line\nbreak", "ö"],
    python="/opt/my python/bin/python3",
    run_options=["--grace", "1min", "--resume-arg", "--resume-from {checkpoint}", "--checkpoints", "out/*.pt"],
    sbatch_options=[
        "-p",
        "main,other",
        "--nodes=2",
        "--comment",
        'a \\ "b" # c',
        "--constraint=[a|b]&c",
        "--exclusive",
    ],
    chain="0123456789abcdef",
    segments=3,
)

shellcheck = pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")


def test_it_reads_like_this():
    script = msgspec.structs.replace(
        PLAIN, run_options=["--grace", "60s"], sbatch_options=["-p", "main", "--nodes=2"], notice_s=60
    )
    assert batch_script(script) == (
        "#!/bin/sh\n"
        "# Runs until the job is finished: whatever ends this script, Slurm or the next segment starts it again.\n"
        "#SBATCH --job-name=x\n"
        "#SBATCH --requeue\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --output=/runs/x/slurm-%j.out\n"
        "# Notice of the time limit, beside what lastgood knows of it: an administrator may move it.\n"
        "#SBATCH --signal=B:USR1@60\n"
        "# As given; they come last, so they win.\n"
        "#SBATCH -p main\n"
        "#SBATCH --nodes=2\n"
        "\n"
        "# exec: Slurm's signals reach lastgood, and its exit code reaches Slurm.\n"
        "exec /usr/bin/python3 -m lastgood run --job /runs/x \\\n"
        "    --grace 60s \\\n"
        "    -- srun python train.py\n"
    )


@shellcheck
@pytest.mark.parametrize("script", [PLAIN, NASTY, msgspec.structs.replace(PLAIN, may_requeue=False)])
def test_shellcheck_has_nothing_to_say(script, tmp_path):
    path = tmp_path / "batch.sh"
    path.write_text(batch_script(script))
    end = subprocess.run(["shellcheck", path], capture_output=True, text=True, timeout=180, check=False)
    assert (end.returncode, end.stdout) == (0, "")


@pytest.mark.parametrize("script", [PLAIN, NASTY])
def test_the_shell_runs_what_was_given(script, tmp_path):
    told = msgspec.structs.replace(script, python="printf")
    # printf of these words: its format is "-m".
    text = batch_script(told).replace("exec printf -m", "exec printf '%s\\0'")
    end = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=180, check=True)
    words = ["lastgood", "run", "--job", script.job, *script.run_options, "--", *script.command]
    assert end.stdout.split("\0")[:-1] == words


def test_the_chain_of_segments_is_exported(tmp_path):
    text = batch_script(NASTY)
    assert "\nexport LASTGOOD_CHAIN=0123456789abcdef\n" in text
    assert "One of 3 segments" in text
    assert "CHAIN" not in batch_script(PLAIN)


def test_own_options_come_last_one_a_line():
    lines = [line for line in batch_script(NASTY).splitlines() if line.startswith("#SBATCH")]
    assert lines[-5:] == [
        "#SBATCH -p main,other",
        "#SBATCH --nodes=2",
        '#SBATCH --comment "a \\\\ \\"b\\" # c"',
        '#SBATCH --constraint="[a|b]&c"',
        "#SBATCH --exclusive",
    ]


def test_where_the_user_names_the_output_we_do_not():
    assert "--output" not in batch_script(msgspec.structs.replace(PLAIN, output=""))


@pytest.mark.parametrize(("notice_s", "said"), [(0, 1), (29.6, 30), (1e6, 65535)])
def test_the_notice_is_what_sbatch_takes(notice_s, said):
    assert f"--signal=B:USR1@{said}\n" in batch_script(msgspec.structs.replace(PLAIN, notice_s=notice_s))


def test_a_job_that_must_not_be_requeued():
    text = batch_script(msgspec.structs.replace(PLAIN, may_requeue=False))
    assert "#SBATCH --no-requeue\n" in text
    assert "#SBATCH --requeue\n" not in text


@pytest.mark.parametrize(
    "changes", [{"name": "a\nb"}, {"job": "/a\nb"}, {"sbatch_options": ["--comment", "a\nb"]}, {"output": "/a\r/x"}]
)
def test_a_line_break_is_refused(changes):
    with pytest.raises(UsageError, match="line break"):
        batch_script(msgspec.structs.replace(PLAIN, **changes))


def test_output_that_sbatch_cannot_name():
    with pytest.raises(UsageError, match="backslash"):
        output_pattern("/a\\b", is_array=False)


def as_sbatch_reads(line: str) -> list[str]:
    """What was seen of Slurm 22.05: quotes as in a shell, and a backslash takes the next character, inside of them."""
    words, word, quote, i = [], None, "", 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
                word += line[i]
            elif c == quote:
                quote = ""
            else:
                word += c
        elif c == "#":
            break
        elif c in " \t":
            words += [] if word is None else [word]
            word = None
        else:
            word = word or ""
            if c in "\"'":
                quote = c
            else:
                word += c
        i += 1
    return words + ([] if word is None else [word])


@given(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])))
def test_a_quoted_word_is_read_back(word):
    assert as_sbatch_reads(quoted(word)) == [word]
    assert as_sbatch_reads(quoted(f"--comment={word}")) == [f"--comment={word}"]
