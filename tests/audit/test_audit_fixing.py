"""Edits of findings, applied to files."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.finding import Finding
from lastgood.audit.fixing import difference, mend, write
from lastgood.audit.rule import Context, Hit, Severity
from lastgood.audit.rules import rule_of
from lastgood.audit.run import Request, audit_all, fix_all
from lastgood.audit.source import Edit, Source, Span
from lastgood.core.errors import LastgoodError


def finding(*edits: Edit, path: str = "job.sh") -> Finding:
    return Finding(
        rule=rule_of("LG101"),
        path=path,
        span=Span(1, 1, 1, 1),
        severity=Severity.NOTE,
        message="found",
        remedy="mend",
        edits=edits,
    )


def mended(data: bytes, *findings: Finding) -> tuple[bytes, int]:
    source, done = mend(Source("job.sh", data), findings)
    return source.data, len(done)


def test_additions_at_one_place_keep_their_order() -> None:
    first, second = finding(Edit(2, 2, "one\n")), finding(Edit(2, 2, "two\n"))
    assert mended(b"a\nb\n", first, second) == (b"a\none\ntwo\nb\n", 2)


def test_two_findings_with_the_same_edit_are_both_mended_by_it() -> None:
    assert mended(b"a\nb\n", finding(Edit(2, 2, "x\n")), finding(Edit(2, 2, "x\n"))) == (b"a\nx\nb\n", 2)


def test_of_edits_that_touch_each_other_the_first_is_made_and_the_other_not_by_half() -> None:
    for edits in [Edit(3, 6, "Z"), Edit(8, 8, "!")], [Edit(8, 8, "!"), Edit(3, 6, "Z")]:
        assert mended(b"0123456789", finding(Edit(2, 5, "x")), finding(*edits)) == (b"01x56789", 1)


def test_an_edit_goes_into_its_own_file_only() -> None:
    assert mended(b"a\n", finding(Edit(0, 0, "x\n"), path="other.sh")) == (b"a\n", 0)


def test_line_ends_of_the_file_are_kept() -> None:
    assert mended(b"a\r\nb\r\n", finding(Edit(3, 3, "x\n")))[0] == b"a\r\nx\r\nb\r\n"


def test_a_line_behind_the_last_one_gets_a_line_of_its_own() -> None:
    assert mended(b"#!/bin/bash\n#SBATCH -n 1", finding(Edit(24, 24, "#SBATCH --requeue\n")))[0] == (
        b"#!/bin/bash\n#SBATCH -n 1\n#SBATCH --requeue"
    )


@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.text("xy\n", max_size=3))))
def test_what_no_edit_names_stays(data: bytes, places: list[tuple[int, int, str]]) -> None:
    size = len(data)
    edits = [Edit(min(a, b, size), min(max(a, b), size), text) for a, b, text in places]
    after, done = mend(Source("job.sh", data), [finding(edit) for edit in edits])
    taken = {edit for each in done for edit in each.edits}
    removed = sum(edit.end - edit.begin for edit in taken)
    assert len(after.data) >= size - removed
    if not done:
        assert after.data == data


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
def test_the_difference_is_what_patch_takes(before: str, after: str) -> None:
    lines = list(difference(Source("x", before.encode()), Source("x", after.encode())))
    assert bool(lines) == (before != after)
    removed = [line[1:] for line in lines[2:] if line.startswith("-")]
    assert all(line in before.split("\n") for line in removed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"), [(b"a\nb", b"a\nx\nb"), (b"a\nb\n", b"a\nb\nc"), (b"a\n\xff\n", b"\xff\n")]
)
def test_patch_makes_of_it_what_fix_would(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "x").write_bytes(before)
    text = "\n".join(difference(Source("x", before), Source("x", after))) + "\n"
    done = subprocess.run(["patch", "-p0"], input=text.encode("utf-8", "surrogateescape"), cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "x").read_bytes() == after


def test_a_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.sh", tmp_path / "job.sh"
    real.write_bytes(b"a\n")
    real.chmod(0o750)
    link.symlink_to(real)
    write(Source(str(link), b"b\n"), Source(str(link), b"a\n"))
    assert link.is_symlink() and real.read_bytes() == b"b\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    assert sorted(os.listdir(tmp_path)) == ["job.sh", "real.sh"]


def test_a_file_that_was_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(b"new\n")
    with pytest.raises(LastgoodError, match="was changed while it was audited"):
        write(Source(str(path), b"b\n"), Source(str(path), b"a\n"))
    assert path.read_bytes() == b"new\n"


def test_a_finding_without_edits_is_not_mended() -> None:
    assert mended(b"a\n", msgspec.structs.replace(finding(), message="other")) == (b"a\n", 0)


STEPS = """\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
export MASTER_ADDR=$(hostname) MASTER_PORT=6000
"""
STEP = "srun python train.py --resume\n"
MENDED = "srun --kill-on-bad-exit=1 python train.py --resume\n"


def fixed(path: Path, text: str) -> str:
    """A script with the edits of LG501."""
    path.write_text(text)
    request = Request(paths=(str(path),), rules=(rule_of("LG501"),))
    fix_all(audit_all(request), request, is_written=True)
    return path.read_text()


def test_all_steps_of_a_script_are_mended_at_once_however_many_they_are(tmp_path: Path) -> None:
    assert fixed(tmp_path / "job.sh", STEPS + 20 * STEP) == STEPS + 20 * MENDED


def test_one_srun_with_two_programs_is_mended_once(tmp_path: Path) -> None:
    step = "srun bash -c 'python prepare.py; python train.py --resume'\n"
    assert fixed(tmp_path / "job.sh", STEPS + step) == STEPS + step.replace("srun", "srun --kill-on-bad-exit=1")


@pytest.mark.parametrize("program", ["$srun", "${srun}", '"$srun"', "$BIN/$srun"])
def test_an_srun_that_comes_out_of_a_variable_is_not_edited_and_does_not_hide_another(
    program: str, tmp_path: Path
) -> None:
    text = f'{STEPS}srun="srun python train.py"\n{program} --resume\n'
    assert fixed(tmp_path / "job.sh", text) == text
    assert fixed(tmp_path / "job.sh", text + STEP) == text + MENDED


def test_an_edit_that_does_not_mend_what_it_is_for_is_not_made(tmp_path: Path) -> None:
    def check(script: BatchScript, context: Context) -> Iterator[Hit]:
        end = script.header.end
        edits = (Edit(end, end, "#SBATCH --requeue\n"),)
        yield Hit(span=script.line(2), message="found again", remedy="none", edits=edits)

    rule = msgspec.structs.replace(rule_of("LG101"), check=check)
    path = tmp_path / "job.sh"
    path.write_text(STEPS)
    request = Request(paths=(str(path),), rules=(rule,))
    report = audit_all(request)
    fix_all(report, request, is_written=True)
    assert (path.read_text(), report.fixed, report.changes) == (STEPS, [], [])


def test_an_edit_that_does_not_mend_takes_no_other_with_it(tmp_path: Path) -> None:
    def check(script: BatchScript, context: Context) -> Iterator[Hit]:
        end = script.header.end
        yield Hit(
            span=script.line(2), message="found again", remedy="none", edits=(Edit(end, end, "#SBATCH --requeue\n"),)
        )
        if b"# mended" not in script.source.data:
            mended = (Edit(end, end, "# mended\n"),)
            yield Hit(span=script.line(3), message="found once", remedy="none", edits=mended)

    rule = msgspec.structs.replace(rule_of("LG101"), check=check)
    path = tmp_path / "job.sh"
    path.write_text(STEPS)
    request = Request(paths=(str(path),), rules=(rule,))
    report = audit_all(request)
    fix_all(report, request, is_written=True)
    assert "# mended" in path.read_text() and "--requeue" not in path.read_text()
    assert [finding.message for finding in report.fixed] == ["found once"]
    assert [finding.message for one in report.audited for finding in one.findings] == ["found again"]
