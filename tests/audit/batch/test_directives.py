"""The header of a batch script is read as sbatch reads it."""

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.batch.directives import Header, read_header
from lastgood.audit.source import Source

needs_sbatch = pytest.mark.skipif(shutil.which("sbatch") is None, reason="Slurm is not installed")


def header(text: str) -> Header:
    return read_header(Source("job.sh", f"#!/bin/bash\n{text}\n".encode()))


def options(text: str) -> dict[str, str]:
    """What counts: every option with its value."""
    found = header(text)
    return {d.name: d.value for d in found.directives if found.get(d.name) is d}


SAME_AS_SBATCH = {
    "--time=2:00 # -n 7": {"time": "2:00"},
    "--comment=a#b -n 7": {"comment": "a"},
    '--comment="a # b" -n 7': {"comment": "a # b", "ntasks": "7"},
    "--comment=a\"b c\"d'e f'g": {"comment": "ab cde fg"},
    '--comment="a\\"b"': {"comment": 'a"b'},
    "--comment='a\\b'": {"comment": "ab"},
    "--comment=x\\#y -n 3": {"comment": "x#y", "ntasks": "3"},
    "--comm=abc": {"comment": "abc"},
    "--com abc": {"comment": "abc"},
    "-Jabc -n7": {"job-name": "abc", "ntasks": "7"},
    "-J=abc": {"job-name": "=abc"},
    "--no-req": {"no-requeue": ""},
    "--exclusive=user": {"exclusive": "user"},
    "--exclusive -n 3": {"exclusive": "", "ntasks": "3"},
    "-Hn 3": {"hold": "", "ntasks": "3"},
    "-HQn3": {"hold": "", "quiet": "", "ntasks": "3"},
    "-s -n 3": {"oversubscribe": "", "ntasks": "3"},
    "--nice -n 3": {"nice": "", "ntasks": "3"},
    "--nice=5 -n 3": {"nice": "5", "ntasks": "3"},
    "--oversub -n 3": {"oversubscribe": "", "ntasks": "3"},
    "\t-n\t3": {"ntasks": "3"},
    "--tasks-per-node=3 --ntasks=4": {"ntasks-per-node": "3", "ntasks": "4"},
    "--comment=a --comment=b": {"comment": "b"},
    "--requeue --no-requeue": {"no-requeue": ""},
    "--no-requeue --requeue": {"requeue": ""},
    "--comment -n": {"comment": "-n"},
    "-n 3 #x": {"ntasks": "3"},
    "-n 3#x": {"ntasks": "3"},
    "--signal=B:USR1@60 -t 1-0": {"signal": "B:USR1@60", "time": "1-0"},
    "--array=0-9%1": {"array": "0-9%1"},
}


@pytest.mark.parametrize("line", SAME_AS_SBATCH)
def test_a_line_has_the_options_that_sbatch_takes_from_it(line: str) -> None:
    assert options(f"#SBATCH {line}") == SAME_AS_SBATCH[line]


@needs_sbatch
@pytest.mark.slow
def test_sbatch_itself_takes_the_same(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=x\nSlurmctldHost=localhost\nSlurmctldPort=9\nMessageTimeout=2\nAuthType=auth/none\n"
        "CredType=cred/none\nNodeName=localhost CPUs=2\nPartitionName=p Nodes=ALL\n"
    )

    def taken(line: str) -> dict[str, str]:
        command = ["sbatch", "-v"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True, env={"SLURM_CONF": str(conf)}) as process:
            assert process.stdin is not None and process.stderr is not None
            process.stdin.write(f"#!/bin/bash\n#SBATCH {line}\n")
            process.stdin.close()
            said = list(itertools.takewhile(lambda text: "end of defined options" not in text, process.stderr))
            # It would now look for a controller, and there is none.
            process.kill()
        return {match[1]: match[2] for text in said if (match := re.match(r"sbatch: ([\w-]+) +: (.*)\n", text))}

    plain_names = {"comment", "ntasks", "job-name", "nice", "ntasks-per-node"}
    plain = {
        line: expected
        for line, expected in SAME_AS_SBATCH.items()
        if set(expected) <= plain_names and "" not in expected.values()
    }
    assert len(plain) > 10
    for line, expected in plain.items():
        got = taken(line)
        assert {name: got[name] for name in got if name in plain_names} == expected, line
    assert taken("--requeue --no-requeue")["requeue"] == "no-requeue"
    assert taken("--no-requeue --requeue")["requeue"] == "requeue"


@pytest.mark.parametrize("line", ["##SBATCH -n 3", "# SBATCH -n 3", " #SBATCH -n 3", "#sbatch -n 3"])
def test_what_only_looks_like_a_directive_is_a_comment(line: str) -> None:
    assert options(line) == {}
    assert header(line).too_late == ()


def test_no_blank_is_needed_behind_the_word() -> None:
    assert options("#SBATCH--comment=abc") == {"comment": "abc"}


def test_blank_lines_and_comments_do_not_end_the_header_and_commands_do() -> None:
    found = header("#SBATCH -n 3\n\n  # why\n \t \n#SBATCH -t 5\nexport A=1\n#SBATCH -N 2\n")
    assert (found.value("ntasks"), found.value("time"), found.get("nodes")) == ("3", "5", None)
    assert [span.line for span in found.too_late] == [8]


def test_a_directive_is_added_behind_the_last_one_or_behind_the_first_line() -> None:
    text = b"#!/bin/bash\n#SBATCH -n 3\n# more\n\nls\n"
    assert text[: read_header(Source("x", text)).end].endswith(b"-n 3\n")
    assert read_header(Source("x", b"#!/bin/bash\nls\n")).end == len("#!/bin/bash\n")
    assert read_header(Source("x", b"ls\n")).end == 0


def test_other_components_of_a_heterogeneous_job_have_their_own_options() -> None:
    found = header("#SBATCH -n 3\n#SBATCH hetjob\n#SBATCH -n 5 --requeue")
    assert found.value("ntasks") == "3" and found.get("requeue") is None
    assert [d.name for d in found.of_other_components] == ["ntasks", "requeue"]


def test_what_sbatch_does_not_know_is_kept_and_said() -> None:
    (wrong,) = header("#SBATCH --wrong=3").directives
    assert (wrong.name, wrong.value, wrong.is_known) == ("wrong", "3", False)
    (unclear,) = header("#SBATCH --co=abc").directives
    assert not unclear.is_known


def test_the_place_of_an_option_is_that_of_its_text() -> None:
    source = Source("x", "#!/bin/bash\n#SBATCH --comment='ä b' -t  1:00 # x\n".encode())
    for directive, text in zip(read_header(source).directives, ("--comment='ä b'", "-t  1:00"), strict=True):
        assert source.text(directive.begin, directive.end) == text
        assert source.line(directive.span.line)[directive.span.column - 1 : directive.span.end_column - 1] == text


@given(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from([b"#SBATCH", b" ", b"\n", b"--time", b"=", b'"', b"'", b"\\", b"-", b"#", b"\r", b"\xff"])
    ),
)
def test_any_bytes_are_read(noise: bytes, pieces: list[bytes]) -> None:
    for data in (noise, b"#SBATCH " + noise, b"".join(pieces), b"#SBATCH " + b"".join(pieces)):
        source = Source("x", data)
        found = read_header(source)
        assert 0 <= found.end <= len(data)
        for directive in found.directives:
            assert 0 <= directive.begin < directive.end <= len(data)


@given(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_a_value_in_quotes_comes_back_as_it_was(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert options(f'#SBATCH --comment="{quoted}" -n 3') == {"comment": value, "ntasks": "3"}


def test_a_word_that_is_no_option_sets_nothing() -> None:
    found = header("#SBATCH --mail-type=ALL ; notification, requeue time=3")
    assert options("#SBATCH --mail-type=ALL ; notification, requeue time=3") == {"mail-type": "ALL"}
    assert found.get("requeue") is None and found.value("time") == ""
