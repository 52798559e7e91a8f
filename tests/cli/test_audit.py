"""`lastgood audit` and `lastgood explain`, as a user meets them."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lastgood.audit import needs, processes, run
from lastgood.audit.rule import Severity
from lastgood.audit.rules import all_rules
from launch.conftest import without_root_powers

NOTE = "#!/bin/bash\n#SBATCH --time=12:00:00\n#SBATCH --requeue\n#SBATCH -o ~/x.log\ntrue\n"
"""Something of the least severity: LG006."""
MAY = "#!/bin/bash\n#SBATCH --requeue\ntrue\n#SBATCH --time=12:00:00\n"
"""Something that may lose work: LG001."""
CLEAN = "#!/bin/bash\n#SBATCH --time=12:00:00\n#SBATCH --requeue\ntrue\n"


AUDIT = ("audit", "--select", "reading")
"""With rules that these scripts have something to do with."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def test_a_clean_script_prints_one_line(lastgood):
    said = lastgood(*AUDIT, write("job.sh", CLEAN))
    assert said == (0, "no findings in 1 file\n", "")


def test_a_finding_shows_its_place_and_the_exit_code_answers(lastgood):
    said = lastgood(*AUDIT, write("job.sh", MAY))
    assert said.code == 1
    assert said.out.startswith("job.sh:4:1: work may be lost [LG001]\n")
    assert "     4 | #SBATCH --time=12:00:00\n       | ^~~~~~~~~~~~~~~~~~~~~~~\n" in said.out
    assert "  what to do: move it above line 3\n" in said.out
    assert "  more: lastgood explain LG001\n" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert said.err == ""


@pytest.mark.parametrize(
    ("text", "threshold", "code"),
    [(MAY, "lost", 0), (MAY, "may", 1), (MAY, "note", 1), (NOTE, "may", 0), (NOTE, "wasteful", 0), (NOTE, "note", 1)],
)
def test_fail_on_says_what_counts(lastgood, text, threshold, code):
    assert lastgood(*AUDIT, "--fail-on", threshold, write("job.sh", text)).code == code


def test_a_directory_is_searched_and_files_come_in_order(lastgood):
    for name in ("b/job.sh", "a/job.sbatch", "c/run"):
        write(name, MAY)
    write("c/notes.txt", "nothing")
    write("c/build.sh", "#!/bin/bash\nmake\n")
    said = lastgood(*AUDIT, ".")
    assert [line.split(":")[0] for line in said.out.splitlines() if "[LG001]" in line] == [
        "./a/job.sbatch",
        "./b/job.sh",
        "./c/run",
    ]
    assert said.out.endswith("3 findings in 3 of 3 files (work may be lost: 3)\n")


def test_what_is_excluded_is_not_audited(lastgood):
    write("old/job.sh", MAY)
    write("job.sh", CLEAN)
    assert lastgood(*AUDIT, "--exclude", "old", ".") == (0, "no findings in 1 file\n", "")


def test_rules_are_chosen_by_code_begin_name_and_family(lastgood):
    write("job.sh", MAY)
    for words in (
        ["--select", "LG001"],
        ["--select", "LG0"],
        ["--select", "reading"],
        ["--select", "directive-too-late"],
    ):
        assert lastgood("audit", *words, "job.sh").code == 1
    for words in (
        ["--select", "LG1,policy"],
        ["--ignore", "LG001"],
        ["--ignore", "reading"],
        ["--select", "LG0", "--ignore", "LG001"],
    ):
        assert lastgood("audit", *words, "job.sh").code == 0
    assert lastgood("audit", "--ignore", "LG0", "--select", "LG001", "job.sh").code == 1


@pytest.mark.parametrize("word", ["LG999", "requeu", "LGX", "all-of-them", "E501"])
@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_a_word_that_is_no_rule_is_a_mistake(lastgood, word, option):
    said = lastgood("audit", option, word, write("job.sh", CLEAN))
    assert (said.code, said.out) == (2, "")
    assert word in said.err and "lastgood explain" in said.err


def test_a_comment_silences_a_finding(lastgood):
    text = NOTE.replace("#SBATCH -o", "# lastgood: ignore LG006 because it is filled in\n#SBATCH -o")
    said = lastgood(*AUDIT, "--fail-on", "note", write("job.sh", text))
    assert said == (0, "no findings in 1 file; 1 silenced by comments\n", "")


def test_json_is_as_documented(lastgood):
    write("job.sh", MAY)
    answer = lastgood(*AUDIT, "--format", "json", "job.sh", "nowhere").answer("audit")
    (finding,) = answer.findings
    assert (finding.code, finding.name, finding.severity, finding.line) == ("LG001", "directive-too-late", "may", 4)
    assert [file.kind for file in answer.files] == ["batch script"]
    assert [problem.path for problem in answer.problems] == ["nowhere"]


def test_json_has_a_short_name_as_in_other_commands(lastgood):
    write("job.sh", MAY)
    assert lastgood("audit", "--json", "job.sh") == lastgood("audit", "--format", "json", "job.sh")


def test_sarif_and_github_are_printed(lastgood):
    write("job.sh", MAY)
    said = lastgood(*AUDIT, "--format", "sarif", "job.sh")
    assert (said.code, msgspec.json.decode(said.out)["version"]) == (1, "2.1.0")
    said = lastgood(*AUDIT, "--format", "github", "job.sh")
    assert said.out.startswith("::warning file=job.sh,line=4,")


def test_standard_input_has_the_name_that_it_is_given(lastgood, monkeypatch):
    for words, name in ([], "-"), (["--stdin-name", "a/job.sh"], "a/job.sh"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MAY.encode())))
        said = lastgood(*AUDIT, *words, "-")
        assert said.code == 1 and said.out.startswith(f"{name}:4:1: ")


def test_standard_input_that_cannot_be_read(lastgood, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    said = lastgood("audit", "-")
    assert said.code == 65 and "standard input is closed" in said.out
    with open(os.devnull, "wb") as write_only:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.FileIO(write_only.fileno(), "r", closefd=False)))
        said = lastgood("audit", "-")
    assert said.code == 65 and "cannot read standard input" in said.out


@pytest.fixture
def mends(monkeypatch):
    """A rule with a sure remedy: a script without `--requeue` gets it."""
    from lastgood.audit.batch.script import BatchScript
    from lastgood.audit.rule import Hit
    from lastgood.audit.source import Edit

    def check(script, context):
        if script.header.get("requeue") is None:
            end = script.header.end
            edits = (Edit(end, end, "#SBATCH --requeue\n"),)
            yield Hit(span=script.line(2), message="nothing says so", remedy="say so", edits=edits)

    rule = msgspec.structs.replace(all_rules()[0], code="LG199", name="mends", reads=BatchScript, check=check)
    monkeypatch.setattr("lastgood.audit.rules.all_rules", lambda: (rule,))
    return rule


BARE = "#!/bin/bash\n#SBATCH --time=1:00\nsrun a\n"
MENDED = "#!/bin/bash\n#SBATCH --time=1:00\n#SBATCH --requeue\nsrun a\n"


def test_diff_shows_and_changes_nothing(lastgood, mends):
    said = lastgood("audit", "--diff", write("job.sh", BARE))
    assert said.out == (
        "--- job.sh\n+++ job.sh\n@@ -1,3 +1,4 @@\n #!/bin/bash\n #SBATCH --time=1:00\n+#SBATCH --requeue\n srun a\n"
    )
    assert "1 can be fixed with --fix" in said.err
    assert Path("job.sh").read_text() == BARE


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_a_diff_is_the_bytes_of_the_file_whatever_the_encoding(mends, monkeypatch, encoding):
    from lastgood.cli.main import main

    Path("job.sh").write_bytes(BARE.encode() + b"# caf\xe9, caf\xc3\xa9\n")
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding=encoding) as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(["audit", "--diff", "job.sh"]) == 1
        lines = written.getvalue().split(b"\n")
    assert lines[0] == b"--- job.sh" and lines[-2:] == [b" # caf\xe9, caf\xc3\xa9", b""]


def test_fix_mends_and_what_is_left_is_told(lastgood, mends):
    write("a/job.sh", BARE)
    write("b/job.sh", MENDED)
    os.chmod("a/job.sh", 0o700)
    said = lastgood("audit", "--fix", ".")
    assert said == (0, "no findings in 2 files; 1 fixed\n", "")
    assert Path("a/job.sh").read_text() == MENDED
    assert os.stat("a/job.sh").st_mode & 0o777 == 0o700
    write("a/job.sh", BARE)
    answer = lastgood("audit", "--fix", "--format", "json", ".").answer("audit")
    assert [finding.path for finding in answer.fixed] == ["./a/job.sh"] and answer.findings == []


def test_one_file_that_cannot_be_written_does_not_stop_the_others(lastgood, mends, monkeypatch):
    for name in ("a.sh", "b.sh"):
        write(name, BARE)
    real = os.open

    def full(path, flags, *rest, **named):
        if "a.sh" in os.fspath(path) and flags & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", full)
    said = lastgood("audit", "--fix", "--fail-on", "lost", "a.sh", "b.sh")
    assert said.code == 65
    assert "a.sh: error: not fixed: cannot write" in said.out.replace("\n  ", " ")
    assert (Path("a.sh").read_text(), Path("b.sh").read_text()) == (BARE, MENDED)


def test_standard_input_cannot_be_fixed(lastgood):
    said = lastgood("audit", "--fix", "-")
    assert said.code == 2 and "--diff" in said.err


def test_a_diff_has_one_format(lastgood):
    assert lastgood("audit", "--diff", "--format", "json", write("job.sh", CLEAN)).code == 2


@pytest.mark.slow
def test_other_commands_do_not_load_the_audit():
    code = (
        "import sys\nfrom lastgood.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "import lastgood.cli.ls_command, lastgood.cli.run_command, lastgood.cli.answers\n"
        "print(sorted(m for m in sys.modules if m in ('yaml', 'tree_sitter') or m.startswith('lastgood.audit.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout.splitlines()[-1] == "['lastgood.audit.formats', 'lastgood.audit.formats.answers']"


POLICY = "ClusterName=c\nSlurmctldHost=h\nJobRequeue=0\n"


@pytest.mark.parametrize("words", [["--policy", "slurm.conf"], ["slurm.conf"]])
def test_a_policy_is_audited_however_it_is_given(lastgood, words):
    write("slurm.conf", POLICY)
    answer = lastgood("audit", "--format", "json", "--select", "policy", *words).answer("audit")
    assert "LG901" in {finding.code for finding in answer.findings}
    assert {finding.path for finding in answer.findings} == {"slurm.conf"}
    assert [file.kind for file in answer.files] == ["Slurm configuration"]


def test_a_policy_may_come_in_parts(lastgood):
    write("config", "Configuration data as of 2024-01-01T00:00:00\nJobRequeue              = 0\n")
    write("partitions", "PartitionName=gpu\n   Default=YES GraceTime=0\n")
    answer = lastgood("audit", "--format", "json", "--policy", "config", "--policy", "partitions").answer("audit")
    assert "LG901" in {finding.code for finding in answer.findings}


def test_the_settings_of_several_clusters_are_audited_each_for_itself(lastgood):
    for name, requeue in ("a", 0), ("b", 1), ("c", 0):
        write(f"{name}.conf", POLICY.replace("=c\n", f"={name}\n").replace("JobRequeue=0", f"JobRequeue={requeue}"))
    answer = lastgood("audit", "--format", "json", "--select", "LG901", "a.conf", "b.conf", "c.conf").answer("audit")
    assert [finding.path for finding in answer.findings] == ["a.conf", "c.conf"]
    assert len(answer.files) == 3


def test_files_that_a_policy_includes_are_read_and_named(lastgood):
    write("etc/slurm.conf", "ClusterName=c\nSlurmctldHost=h\nInclude site.conf\n")
    write("etc/site.conf", "\nJobRequeue=0\n")
    answer = lastgood("audit", "--format", "json", "--select", "LG901", "--policy", "etc/slurm.conf").answer("audit")
    assert [(finding.path, finding.line) for finding in answer.findings] == [("etc/site.conf", 2)]
    os.remove("etc/site.conf")
    answer = lastgood("audit", "--format", "json", "--policy", "etc/slurm.conf").answer("audit")
    assert any("site.conf" in problem.message for problem in answer.problems)


def test_files_that_a_policy_includes_are_counted(lastgood):
    write("slurm.conf", "ClusterName=c\nInclude site.conf\nInclude nodes.conf\nInclude site.conf\n")
    write("site.conf", "SlurmctldHost=h\nJobRequeue=0\n")
    write("nodes.conf", "PartitionName=a\n")
    for words in (["slurm.conf"], ["--policy", "slurm.conf"]):
        said = lastgood("audit", "--select", "LG901", *words)
        assert said.out.splitlines()[-1] == "1 finding in 1 of 3 files (wasteful: 1)"
    files = lastgood("audit", "--json", "slurm.conf").answer("audit").files
    assert [file.path for file in files] == ["slurm.conf", "site.conf", "nodes.conf"]


def test_a_policy_may_be_nothing_but_files_that_it_includes(lastgood):
    write("slurm.conf", "Include site.conf\n")
    write("site.conf", POLICY)
    answer = lastgood("audit", "--json", "--select", "LG901", "--policy", "slurm.conf").answer("audit")
    assert [finding.path for finding in answer.findings] == ["site.conf"]


def test_a_live_policy_is_asked_for(lastgood, monkeypatch):
    from lastgood.schedulers.slurm_commands import SlurmCommands

    shown = {
        "scontrol show config": "Configuration data as of 2024-01-01T00:00:00\nJobRequeue = 0\n",
        "scontrol show partition": "PartitionName=a\n",
    }
    monkeypatch.setattr(SlurmCommands, "show_policy", lambda self: shown)
    answer = lastgood("audit", "--format", "json", "--policy", "live").answer("audit")
    assert {finding.path for finding in answer.findings} == {"scontrol show config"}


@pytest.mark.parametrize(("name", "code"), [("nowhere.conf", 66), ("job.sh", 65)])
def test_a_policy_that_is_none_is_an_error(lastgood, name, code):
    write("job.sh", CLEAN)
    said = lastgood("audit", "--policy", name, "job.sh")
    assert (said.code, said.out) == (code, "") and name in said.err


def test_names_of_files_cannot_play_tricks_with_the_terminal(lastgood):
    name = "a\x1b[31m\nb.sh"
    write(name, MAY)
    for words in ([name], ["."], ["--policy", name], ["gone" + name], ["--format", "github", name]):
        said = lastgood("audit", *words)
        assert "\x1b" not in said.out + said.err and "a\\x1b[31m\\nb.sh" in (said.out + said.err).replace("\n  ", "")


def test_a_write_time_needs_its_unit(lastgood):
    said = lastgood("audit", "--write", "5", write("job.sh", CLEAN))
    assert said.code == 2 and "unit" in said.err


def test_nothing_to_audit_is_a_mistake_and_an_empty_directory_says_so(lastgood):
    assert lastgood("audit").code == 2
    os.mkdir("empty")
    said = lastgood("audit", "empty")
    assert said.code == 66
    assert "empty: error: nothing to audit in it" in said.out and "nothing was audited" in said.out
    write("full/job.sh", CLEAN)
    assert lastgood("audit", "full", "empty").code == 66
    write("full/in/job.sh", CLEAN)
    assert lastgood("audit", "full", "full/in").code == 0


def test_a_path_that_does_not_exist(lastgood):
    said = lastgood("audit", "nowhere/job.sh")
    assert said.code == 66
    assert "nowhere/job.sh: error: there is no such file or directory" in said.out


def test_of_several_problems_that_of_a_file_that_is_there_counts(lastgood):
    Path("a.out").write_bytes(b"\0")
    assert lastgood("audit", "nowhere", "a.out").code == 65
    assert lastgood("audit", "nowhere", "elsewhere").code == 66


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("a.out", b"\x7fELF\0\0", 65, "binary"),
        ("job.sh", CLEAN.encode("utf-16"), 65, "UTF-16"),
        ("empty.sh", b"", 66, "empty"),
        ("empty.yaml", b"\n", 66, "empty"),
        ("make.sh", b"#!/bin/bash\nmake\n", 0, "without `#SBATCH`"),
        ("notes.md", b"# Notes\n", 66, "neither"),
        ("values.yaml", b"a: b\n", 0, "nothing to audit"),
        ("train.py", b"print 'x'\n", 65, "no Python"),
        ("job.yaml", b"apiVersion: batch/v1\nkind: Job\n  spec: [\n", 65, "YAML"),
    ],
)
def test_a_file_that_cannot_be_audited_says_why_and_the_others_are(lastgood, name, data, code, words):
    Path(name).write_bytes(data)
    write("z.sh", MAY)
    said = lastgood("audit", name)
    assert said.code == code and words in said.out and name in said.out
    said = lastgood("audit", name, "z.sh")
    assert said.code == 1 and words in said.out and "z.sh:4:1" in said.out


@pytest.mark.parametrize("text", ["", "kind: Service\napiVersion: v1\n", "make\n", "#!/bin/bash\nmake\n"])
def test_standard_input_that_holds_nothing_to_audit_is_a_mistake(lastgood, monkeypatch, text):
    def audit(*others):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return lastgood("audit", "-", *others).code

    assert audit() == 66
    assert audit(write("make.sh", "#!/bin/bash\nmake\n")) == 66
    assert audit(write("job.sh", CLEAN)) == 0


@pytest.mark.slow
def test_a_file_without_permission():
    write("job.sh", CLEAN)
    os.chmod("job.sh", 0)
    command = [sys.executable, "-m", "lastgood", "audit", "job.sh"]
    done = subprocess.run(command, preexec_fn=without_root_powers, capture_output=True, text=True, check=False)
    assert done.returncode == 65 and "Permission denied" in done.stdout


def test_a_file_that_cannot_be_read(lastgood, fail_to_read):
    write("bad.sh", CLEAN)
    write("z.sh", MAY)
    fail_to_read("bad.sh")
    said = lastgood("audit", "bad.sh", "z.sh")
    assert said.code == 1
    assert "bad.sh: error: cannot read it: Input/output error" in said.out


def test_bytes_that_are_no_utf_8_are_shown_as_escapes(lastgood):
    Path("job.sh").write_bytes(MAY.encode() + b"# caf\xe9 \x1b[31m\n")
    assert lastgood("audit", "job.sh").code == 1
    Path("job.sh").write_bytes(
        MAY.replace("--time", "--comment=\udce9\x1b[31m --time").encode("utf-8", "surrogateescape")
    )
    said = lastgood("audit", "job.sh")
    assert "--comment=\\xe9\\x1b[31m" in said.out and "\x1b" not in said.out


def test_a_missing_library_is_one_clear_error(lastgood, monkeypatch):
    monkeypatch.setattr(needs, "find_spec", lambda name: None if name == "tree_sitter_bash" else object())
    said = lastgood("audit", write("job.sh", CLEAN))
    assert (said.code, said.out) == (2, "")
    assert "tree-sitter-bash" in said.err and "pip install 'lastgood[audit]'" in said.err


def test_a_program_is_audited_if_a_script_starts_it_or_it_is_named(lastgood):
    write("jobs/job.sh", CLEAN.replace("true", "srun python train.py"))
    write("jobs/train.py", "import os\n")
    write("jobs/other.py", "import os\n")
    kinds = {file.path: file.kind for file in lastgood("audit", "--format", "json", "jobs").answer("audit").files}
    assert kinds == {"jobs/job.sh": "batch script", "jobs/train.py": "Python program"}
    answer = lastgood("audit", "--format", "json", "jobs", "jobs/other.py", "jobs/train.py").answer("audit")
    assert [file.path for file in answer.files] == ["jobs/job.sh", "jobs/other.py", "jobs/train.py"]


@pytest.mark.slow
def test_several_processes_find_the_same_in_the_same_order(lastgood, monkeypatch):
    for i in range(30):
        write(f"{i % 7}/job{i}.sh", MAY if i % 3 else CLEAN)
    alone = lastgood("audit", ".")
    monkeypatch.setattr(processes, "MANY_FILES", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert lastgood("audit", ".") == alone


@pytest.mark.slow
def test_a_file_that_ends_the_process_is_named_and_the_others_are_audited(lastgood, monkeypatch):
    real = run.models_of

    def ends(source):
        if source.path.endswith("job3.sh"):
            os._exit(9)
        return real(source)

    for i in range(6):
        write(f"job{i}.sh", MAY)
    monkeypatch.setattr(run, "models_of", ends)
    monkeypatch.setattr(processes, "MANY_FILES", 2)
    monkeypatch.setattr(processes, "_AT_ONCE", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    answer = lastgood("audit", "--select", "LG001", "--format", "json", ".").answer("audit")
    assert [finding.path for finding in answer.findings] == [f"./job{i}.sh" for i in (0, 1, 2, 4, 5)]
    (problem,) = answer.problems
    assert problem.path == "./job3.sh" and "process ended" in problem.message


@pytest.mark.slow
def test_colours_need_a_terminal_and_no_color_is_honoured():
    import pty

    write("job.sh", MAY)

    def shown(**environment):
        reader, writer = pty.openpty()
        done = subprocess.Popen(
            [sys.executable, "-m", "lastgood", "audit", "job.sh"],
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment},
            stdout=writer,
        )
        os.close(writer)
        pieces = []
        # One look may find the first of several pieces only. A terminal whose other end is closed answers with an error.
        with contextlib.suppress(OSError):
            while piece := os.read(reader, 100_000):
                pieces.append(piece)
        os.close(reader)
        assert done.wait(180) == 1
        return b"".join(pieces).decode()

    assert "\x1b[33;1mwork may be lost" in shown()
    assert "\x1b" not in shown(NO_COLOR="1")
    assert "\x1b" not in shown(TERM="dumb")


def test_explain_lists_the_rules(lastgood):
    said = lastgood("explain")
    assert said.code == 0
    assert all(f"{rule.code}  {rule.name}" in said.out for rule in all_rules())
    assert "reading\n" in said.out


@pytest.mark.parametrize("word", ["LG001", "lg001", "directive-too-late"])
def test_explain_shows_a_rule(lastgood, word):
    said = lastgood("explain", word)
    assert said.code == 0
    assert said.out.startswith("LG001 directive-too-late: work may be lost\n")
    for heading in ("why", "example", "better", "when it is safe to ignore", "source"):
        assert f"\n{heading}\n" in said.out
    assert "job.sh:5:1: work may be lost [LG001]" in said.out


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_page_fits_the_terminal(lastgood, rule):
    said = lastgood("explain", rule.code)
    # Examples are files and stay as they are.
    assert all(len(line) <= 80 for line in said.out.splitlines() if not line.startswith("  | "))


def test_explain_in_json(lastgood):
    answer = lastgood("explain", "--json", "LG0").answer("explain")
    assert {rule.family for rule in answer.rules} == {"reading"}
    assert len(lastgood("explain", "--json").answer("explain").rules) == len(all_rules())


def test_explain_of_what_is_no_rule(lastgood):
    said = lastgood("explain", "LG998")
    assert (said.code, said.out) == (2, "") and "LG998" in said.err


def test_thresholds_are_the_severities():
    from lastgood.audit.formats.json_answer import _WORDS
    from lastgood.cli.audit_command import THRESHOLDS

    assert {THRESHOLDS[word]: severity for severity, word in _WORDS.items()} == {s.value: s for s in Severity}
