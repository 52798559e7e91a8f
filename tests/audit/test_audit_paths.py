"""Where checkpoints lie, how the newest is found, what other files tell: the parts that rules on paths and resuming share."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.audit.batch.applications import mdruns
from lastgood.audit.batch.attempts import is_chain, is_chain_of_jobs, submitted
from lastgood.audit.batch.changes import local_storage, new_at_each_start
from lastgood.audit.batch.copies import Copied, Copies
from lastgood.audit.batch.newest import choices_of_newest
from lastgood.audit.batch.places import directory_of, is_training, only_reads, places_of
from lastgood.audit.batch.script import BatchScript, scripts_in
from lastgood.audit.beside import Programs
from lastgood.audit.engine import audit
from lastgood.audit.rule import Context
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source

HEAD = "#!/bin/bash\n#SBATCH --time=24:00:00\n"


def script(text: str) -> BatchScript:
    return BatchScript(Source("job.sh", (HEAD + text).encode()))


def found_places(text: str) -> dict[str, tuple[list[str], bool]]:
    """By option: all that the path can be, and whether it is for checkpoints."""
    return {p.option: ([c.text for c in p.choices], p.is_for_checkpoints) for p in places_of(script(text))}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("python train.py --save-dir a", {"--save-dir": (["a"], True)}),
        ("python train.py --checkpoint_path=a/$X", {"--checkpoint_path": (["a/${X}"], True)}),
        ("python train.py --output_dir a", {"--output_dir": (["a"], False)}),
        ("python train.py trainer.default_root_dir=a +hydra.run.dir=b", {"trainer.default_root_dir": (["a"], False), "+hydra.run.dir": (["b"], False)}),
        ("X=a; q && X=b; python train.py --save $X", {"--save": (["b", "a"], True)}),
        ("X=(--save a --lr 1); torchrun train.py ${X[@]}", {"--save": (["a"], True)}),
        ("CKPT_DIR=a; python train.py cfg.yaml $CKPT_DIR", {"$CKPT_DIR": (["a"], True)}),
        ("export CHECKPOINT_DIR=a; srun python train.py", {"$CHECKPOINT_DIR": (["a"], True)}),
        ("python train.py --save a --log-dir b", {"--save": (["a"], True)}),
        ("python train.py --log-dir b", {"--log-dir": (["b"], False)}),
        ("python train.py --data-dir a --cache_dir b --pretrained-checkpoint-path c --resume-from d --model_dir e", {}),
        ("python evaluate.py --checkpoint-dir a", {}),
        ("python main.py eval --checkpoint-dir a", {}),
        ("mkdir -p --save-dir x; cp --output-dir y z", {}),
        ("python train.py --save-dir --lr 1", {}),
    ],
)  # fmt: skip
def test_places_are_told_by_the_names_of_options(text: str, places: dict[str, tuple[list[str], bool]]) -> None:
    assert found_places(text) == places


@pytest.mark.parametrize(
    ("command", "trains"),
    [
        ("python train.py", True),
        ("python tools/run_pretrain_gpt.py", True),
        ("torchrun main.py", True),
        ("python main.py --epochs 10", True),
        ("python main.py --num_train_epochs=3", True),
        ("python main.py trainer.max_epochs=3", True),
        ("python constrained.py", False),
        ("python generate.py --num-inference-steps 5", False),
        ("./simulate --steps 7", False),
    ],
)
def test_training_is_told_by_names_and_options(command: str, trains: bool) -> None:
    assert is_training(script(command).work[0][1]) == trains


def test_a_program_that_only_reads_is_told_by_its_name_or_its_command() -> None:
    commands = (
        "python -u run/main.py eval --x",
        "python test_model.py",
        "python latest.py",
        "python train.py eval.yaml",
    )
    assert [only_reads(script(command).work[0][1]) for command in commands] == [True, True, False, False]


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("run-$(date +%s)", "the date"),
        ("run-`date +%F`", "the date"),
        ("$(mktemp -d)", "mktemp"),
        ("$(uuidgen)", "a new UUID"),
        ("run_$RANDOM", "$RANDOM"),
        ("/tmp/$$", "the process id ($$)"),
        ("a-${SLURM_RESTART_COUNT:-0}", "the count of restarts ($SLURM_RESTART_COUNT)"),
        ("run-$(date +%Y)", ""),
        ("run-$(date -r config.yaml +%F)", ""),
        ('run-$(date -u -d "@$(stat -c %Y config.yaml)" +%Y%m%d)', ""),
        ("run-$(date +%F -ud @0)", ""),
        ("run-$(TZ=UTC /bin/date --utc +%F --date=@0)", ""),
        ("run-$(date -u +%F --reference config.yaml)", ""),
        ("run-$(cat date.txt)", ""),
        ("run-$(cat date)", ""),
        ("run-$(./date.sh)", ""),
        ("run-$(TZ=UTC /bin/date --rfc-3339=date)", "the date"),
        ("run-$(basename $(date -u +%F))", "the date"),
        ("run-$(date +%F | cut -d- -f1)", "the date"),
        ("run-$(stat -c %Y -r x; date +%F)", "the date"),
        ("$$name/$$(pwd)", ""),
        ("$SLURM_JOB_ID", ""),
        ("$(cat run.date)", ""),
        ("$(basename $PWD)", ""),
    ],
)
def test_what_is_new_at_each_start(path: str, what: str) -> None:
    word = script(f"a {path}").commands[0].words[1]
    assert new_at_each_start(word) == what


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/tmp", "/tmp"),
        ("/tmp/x", "/tmp"),
        ("/dev/shm/x", "/dev/shm"),
        ("$TMPDIR/x", "$TMPDIR"),
        ("${TMPDIR:-/tmp}/x", "$TMPDIR"),
        ("${SLURM_TMPDIR}", "$SLURM_TMPDIR"),
        ("/lscratch/$SLURM_JOB_ID", "/lscratch"),
        ("$(mktemp -d)", "mktemp's directory"),
        ("$(mktemp -d -p /project)", None),
        ("$(mktemp -d /project/XXX)", None),
        ("/tmpfiles/x", None),
        ("/scratch/x", None),
        ("$SCRATCH/x", None),
        ("${TMPDIR:-/project}/x", None),
        ("tmp/x", None),
    ],
)
def test_storage_of_one_node(path: str, root: str | None) -> None:
    storage = local_storage(script(f"a {path}").commands[0].words[1])
    assert (storage.name if storage else None) == root


@pytest.mark.parametrize(
    ("before", "directory"),
    [
        ("cd /a", "/a"),
        ("cd /a; cd b", "/a/b"),
        ("mkdir /a && cd /a", "/a"),
        ("cd /a || exit 1", "/a"),
        ("pushd /a", "/a"),
        ("cd b", "b"),
        ("D=/a/$X; cd $D", "/a/${X}"),
        ("", None),
        ("cd /a; cd -", None),
        ("cd /a; cd ..", None),
        ("cd /a; popd", None),
        ("if q; then cd /a; fi", None),
        ("(cd /a; make)", None),
        ("x=$(cd /a; pwd)", None),
        ("f() { cd /a; }", None),
    ],
)
def test_the_working_directory_is_followed(before: str, directory: str | None) -> None:
    read = script(f"{before}\nwork")
    here = directory_of(read, read.commands[-1])
    assert (here.text if here else None) == directory


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("work", Copied.NEVER),
        ("work; cp -r /tmp/a /b", Copied.AT_THE_END),
        ("work; cp -r /b /tmp/a", Copied.NEVER),
        ("work; cd /tmp/a; cp -r x /b", Copied.AT_THE_END),
        ("work; tar czf /b/x.tgz -C /tmp/a .", Copied.AT_THE_END),
        ("work; rsync -a /tmp/a/ /b; ls", Copied.AT_THE_END),
        ("while sleep 60; do rsync -a /tmp/a/ /b; done & work", Copied.MEANWHILE),
        ("trap 'cp -r /tmp/a /b' EXIT; work", Copied.MEANWHILE),
        ("s() { cp -r /tmp/a /b; }; trap s TERM; work; s", Copied.MEANWHILE),
        ("./syncer /tmp/a & work", Copied.MEANWHILE),
        ("for i in 1 2; do work; cp -r /tmp/a /b; done", Copied.AT_THE_END),
        ("cp -r /tmp/ab /b; work", Copied.NEVER),
    ],
)
def test_when_a_directory_is_copied(text: str, when: Copied) -> None:
    read = script(text)
    root = script("x /tmp/a").commands[0].words[1]
    work = next(command for command in read.commands if command.name == "work")
    assert Copies(read).when(root, work) == when


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("L=$(ls c/step_*.pt | tail -1)", "name"),
        ("L=$(ls -1 c/*.ckpt | sort | tail -n 1)", "name"),
        ("L=$(find c -name '*.pt' | tail -1)", "nothing"),
        ("L=$(find c -name '*.pt' | sort | tail -1)", "name"),
        ("L=$(find c -name '*.pt' -printf '%T@ %p\\n' | sort -n | tail -1)", "time"),
        ("L=$(ls -t c/*.pt | head -1)", "time"),
        ("L=$(ls -dtr c/checkpoint-* | tail -1)", "time"),
        ("L=$(ls c/*.pt | sort -V | tail -1)", "number"),
        ("L=$(ls -v c/*.pt | tail -1)", "number"),
        ("L=$(ls c/step_*.pt | sort -t_ -k2n | tail -1)", "number"),
    ],
)
def test_how_the_newest_is_chosen(text: str, by: str) -> None:
    choices = list(choices_of_newest(script(f"{text}\npython train.py --resume $L")))
    assert [(choice.by, choice.name) for choice in choices] == [(by, "L")]


def test_a_chain_is_told_from_jobs_that_only_wait() -> None:
    chain = BatchScript(Source("job.sh", b"#SBATCH --array=1-9%1\npython train.py --resume\n"))
    waiting = BatchScript(Source("job.sh", b"#SBATCH --dependency=singleton\npython bench.py\n"))
    own_name = script("python train.py; sbatch --time=1:00 -d afterany:1 ./job.sh")
    by_hand = script('if [ -z "$SLURM_JOB_ID" ]; then sbatch "$0"; exit; fi')
    assert [is_chain(s) for s in (chain, waiting, own_name, by_hand)] == [True, False, True, False]
    assert is_chain_of_jobs(own_name) and not is_chain_of_jobs(chain)
    assert submitted(own_name, own_name.commands[-1]) == "./job.sh"


def test_gromacs_is_found_behind_its_wrappers_with_the_names_of_its_checkpoints() -> None:
    text = "gmx grompp -f md.mdp -o a.tpr\nsrun gmx_mpi mdrun -s a.tpr -deffnm x -cpi\nmpirun mdrun_mpi -cpi y.cpt -cpo ./y.cpt\n"
    runs = list(mdruns(script(text)))
    assert [(run.stem, run.read_stem, run.parameters) for run in runs] == [("x", "x", "md.mdp"), ("y", "y", "")]


CONTROL = "application icoFoam;\nstartFrom {};\nendTime 3;\n"
MELT = "read_data a.data\n{}run 5000000\n"


def codes(path: Path) -> set[str]:
    """Of the findings in a script, with the files beside it."""
    source = Source(str(path), path.read_bytes())
    programs = Programs()
    programs.begin(str(path), [BatchScript(source)])
    context = Context(find_program=programs.find, read_text=programs.read_text)
    return {finding.rule.code for finding in audit(source, all_rules(), context).findings}


@pytest.mark.parametrize(("start", "is_found"), [("startTime", True), ("latestTime", False)])
def test_the_control_file_beside_an_openfoam_job_is_read(tmp_path: Path, start: str, is_found: bool) -> None:
    (tmp_path / "case" / "system").mkdir(parents=True)
    (tmp_path / "case" / "system" / "controlDict").write_text(CONTROL.format(start))
    (tmp_path / "job.sh").write_text(HEAD + "cd case\nsrun icoFoam -parallel\n")
    assert ("LG613" in codes(tmp_path / "job.sh")) == is_found


@pytest.mark.parametrize(("restart", "is_found"), [("", True), ("restart 1000 a b\nread_restart a\n", False)])
def test_the_input_beside_a_lammps_job_is_read(tmp_path: Path, restart: str, is_found: bool) -> None:
    (tmp_path / "in.melt").write_text(MELT.format(restart))
    (tmp_path / "job.sh").write_text(HEAD + "srun lmp -in in.melt\n")
    assert ("LG614" in codes(tmp_path / "job.sh")) == is_found


def test_an_input_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "in.melt").mkdir()
    (tmp_path / "job.sh").write_text(HEAD + "srun lmp -in in.melt\n")
    programs = Programs()
    assert programs.read_text(str(tmp_path / "job.sh"), "in.melt") is None
    assert programs.read_text(str(tmp_path / "job.sh"), "nothing") is None
    assert programs.read_text(str(tmp_path / "job.sh"), "a\0b") is None
    assert "LG614" not in codes(tmp_path / "job.sh")


OWN = [rule for rule in all_rules() if rule.code[:4] in ("LG20", "LG30", "LG60", "LG61")]
TEXTS = [text for rule in OWN for text in (rule.bad, rule.good)]


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_no_rule_raises_whatever_a_script_holds(data: st.DataObject) -> None:
    lines = [
        line
        for text in data.draw(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3))
        for line in text.splitlines()
    ]
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=25))
    text = "\n".join(kept)
    begin, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    text = (
        text[:begin]
        + data.draw(st.sampled_from(["", "'", '"', "$(", "${", "(", "\\", "<<E\n", "|", ";", "$"]))
        + text[end:]
    )
    for read in scripts_in(BatchScript(Source("job.sh", text.encode()))):
        for rule in OWN:
            for hit in rule.check(read, Context()):
                assert 1 <= hit.span.line <= read.source.line_count and hit.message and hit.remedy
