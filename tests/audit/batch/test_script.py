"""What a script's words, variables and functions come to, also in shell that nobody would want to read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.audit.batch.script import BatchScript, scripts_in
from lastgood.audit.source import Source

REAL = """\
#!/bin/bash -l
#SBATCH --job-name=pretrain
#SBATCH --nodes=2 --time=24:00:00
#SBATCH --array=1-10%1
#SBATCH --signal=B:USR1@120
set -euo pipefail
export OUT=${SCRATCH:-/tmp}/runs/$SLURM_JOB_NAME
ARGS=(--lr 1e-3 --out "$OUT" # the rest
      --data '/data/a b')
ARGS+=(--resume "$(ls -t "$OUT"/*.pt 2>/dev/null | head -1)")
save() { touch "$OUT/stop"; kill -USR1 "${1:-$PID}"; }
trap 'save; scontrol requeue $SLURM_JOB_ID' USR1 TERM
if [[ -f $OUT/done ]]; then exit 0; fi
case "$SLURM_NODEID" in 0) mkdir -p "${OUT%/*}";; *) sleep 1;; esac
for i in {1..3}; do
  srun --kill-on-bad-exit=1 bash -c "python -u train.py ${ARGS[*]} --rank \\$SLURM_PROCID" &> log.$i && break || sleep $((i*5))
done &
PID=$!
wait "$PID" || true
cat <<EOF > next.sh
#!/bin/bash
#SBATCH --time=1:00:00
python eval.py --from $OUT <<< "x"
EOF
sbatch --dependency=afterany:$SLURM_JOB_ID next.sh | tee >(cat >&2)
"""


def script(text: str) -> BatchScript:
    return BatchScript(Source("job.sh", text.encode()))


def last_words(text: str) -> list[str]:
    """The words of the last command of a script, with the values that the script gives them."""
    read = script(text)
    return [word.text for word in read.words(read.commands[-1])]


def of_program(text: str, program: str) -> list[list[str]]:
    read = script(text)
    return [[word.text for word in launch.words] for _, launch in read.launches if launch.program == program]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a "b c" \'d e\' f\\ g', ["a", "b c", "d e", "f g"]),
        ('a "q\\"r" "$X\\\n y" \'q"r\'', ["a", 'q"r', "${X} y", 'q"r']),
        ("a $'b c' --x=$'d'", ["a", "b c", "--x=d"]),
        ("X=1; a $X ${X} \"$X\" '$X' x${X}y", ["a", "1", "1", "1", "$X", "x1y"]),
        ("X=1; Y=$X/2; Z=${Y}3; a $Z", ["a", "1/23"]),
        ("X='b  c'; a $X \"$X\"", ["a", "b", "c", "b  c"]),
        ("X=; a $X b", ["a", "b"]),
        ("a $X; X=1; a $X", ["a", "1"]),
        ("X=1; X=$X:2; a $X", ["a", "1:2"]),
        ("X=$X:2; a $X", ["a", "${X}"]),
        ("X=$Y; Y=$X; a $X", ["a", "${Y}"]),
        ("X=b; X+=' c'; a $X", ["a", "b", "c"]),
        ("X+=' c'; a $X", ["a", "${X}"]),
        ('X=(b --c "d"); X+=(e); a "${X[@]}" f', ["a", "b", "--c", "d", "e", "f"]),
        ("X=(b\n # no word\n c); a ${X[*]}", ["a", "b", "c"]),
        ("export X=1; declare -r Y=2; readonly Z=3; a $X $Y $Z", ["a", "1", "2", "3"]),
        ("X=/a/b.tar.gz; a ${X%/*} ${X##*/} ${X%.*} ${X%%.*} ${X#/}", ["a", "/a", "b.tar.gz", "/a/b.tar", "/a/b", "a/b.tar.gz"]),
        ("X=1; a ${X:-2} ${X:=3} ${Y:-4}", ["a", "1", "1", "${Y}"]),
        ("X=1; a ${#X} ${!X} ${X/1/2} ${X^^} ${X:0:1}", ["a", "${X}", "${X}", "${X}", "${X}", "${X}"]),
        ("X=1; a $((X+1))", ["a", "$((X+1))"]),
        ("X=1; read X; a $X", ["a", "${X}"]),
        ("X=1; read -r X < f; a $X", ["a", "${X}"]),
        ("X=1; unset X; a $X", ["a", "${X}"]),
        ("X=1; printf -v X %d 2; a $X", ["a", "${X}"]),
        ("i=0; for i in 1 2; do O=out_$i; a $O; done", ["a", "out_${i}"]),
        ("X=; for i in 1 2; do X=$X$i; a $X; done", ["a", "${X}"]),
        ("i=1; while q; do a $i; ((i++)); done; a $i", ["a", "${i}"]),
        ("i=1; ((i += 2)); a $i", ["a", "${i}"]),
        ("i=1; let i+=2; a $i", ["a", "${i}"]),
        ("for ((i=0;i<3;i++)); do a $i; done", ["a", "${i}"]),
        ("X=1; for i in 1 2; do X=2; a $X; done", ["a", "2"]),
        ("f() { local X=1; }; X=2; f; a $X", ["a", "2"]),
        ("X=2; f() { local X=1; }; f; a $X", ["a", "2"]),
        ("X=/tmp/$$; a $X /tmp/$$ /tmp/$$/b", ["a", "/tmp/${$}", "/tmp/${$}", "/tmp/${$}/b"]),
        ("X=$(date +%s); a run_$X", ["a", "run_$(date +%s)"]),
        ("A=a; B=b; X=$A/$B.tar; c $X $A/x$B$A.y $1/$2.z", ["c", "a/b.tar", "a/xba.y", "${1}/${2}.z"]),
        ("A=a; B=b; export X=$A-$B-c; d '$A/$B.c' \"$A/$B.c x\\$B\" ${A}$B $X", ["d", "$A/$B.c", "a/b.c x$B", "ab", "a-b-c"]),
        ('X="b $Y  $Z $(c d) ${Y}"; a $X', ["a", "b", "${Y}", "${Z}", "$(c d)", "${Y}"]),
        ("X=`hostname`; a $X", ["a", "`hostname`"]),
        ("a ~/b {c,d} *.pt", ["a", "~/b", "{c,d}", "*.pt"]),
    ],
)  # fmt: skip
def test_words_are_what_the_shell_makes_of_them(text: str, words: list[str]) -> None:
    assert last_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("f() { python t.py $1; }\nf x", ["python", "t.py", "x"]),
        ("f() { python t.py $1; }\nf x\nf y", ["python", "t.py", "${1}"]),
        ("f() { python t.py $X; }\nX=1\nf\nX=2", ["python", "t.py", "1"]),
        ("function f { local X=1; python t.py $X; }\nX=2; f", ["python", "t.py", "1"]),
        ("eval python t.py --x", ["python", "t.py", "--x"]),
        ("eval 'python t.py --x'", ["python", "t.py", "--x"]),
        ('C="python t.py --x"; eval "$C"', ["python", "t.py", "--x"]),
        ('C="python t.py \\\n --x"; srun bash -c "$C"', ["python", "t.py", "--x"]),
        ('P=python; C="$P t.py"; $C --x', ["python", "t.py", "--x"]),
        ("singularity exec x.sif bash -lc 'cd /w && python t.py'", ["python", "t.py"]),
        ('bash -c "bash -c \'python t.py\'"', ["python", "t.py"]),
        ("time python t.py", ["python", "t.py"]),
    ],
)  # fmt: skip
def test_a_program_is_found_behind_functions_and_strings(text: str, words: list[str]) -> None:
    assert of_program(text, "python") == [words]


def test_a_variable_that_a_loop_sets_further_down_is_not_known_above() -> None:
    read = script("X=1\nfor i in 1 2; do\n a $X\n X=2\ndone\na $X")
    assert [[w.text for w in read.words(c)] for c in read.commands] == [["a", "${X}"], ["a", "2"]]


def test_what_srun_runs_in_a_string_is_behind_srun() -> None:
    read = script("srun -n 2 bash -c 'cd x; exec python t.py' ")
    launch = next(launch for _, launch in read.launches if launch.program == "python")
    assert [wrapper.name for wrapper in launch.wrappers] == ["srun", "shell", "exec"]
    assert [launch.program for _, launch in read.work] == ["python"]


def test_branches_give_several_values() -> None:
    read = script('X=/a\nif q; then X=/b; fi\n[ -d /c ] && Y=$X/c\npython t.py $X "$Y" $Z ${X%/*}')
    command = read.commands[-1]
    assert [[choice.text for choice in read.choices(word)] for word in command.words[2:]] == [
        ["/b", "/a"],
        ["/b/c", "/a/c", "${Y}"],
        ["${Z}"],
        [""],
    ]


def test_a_here_document_with_directives_is_a_script_of_its_own() -> None:
    inner = script(REAL).embedded
    assert [s.header.value("time") for s in inner] == ["1:00:00"]
    assert [launch.python_script for _, launch in inner[0].work] == ["eval.py"]
    assert inner[0].work[0][0].span.line == REAL[: REAL.index("python eval.py")].count("\n") + 1


def test_a_here_document_without_directives_is_text() -> None:
    assert script("python t.py <<EOF\n#!/bin/bash\nls\nEOF\n").embedded == []


def test_a_real_script_is_read_as_it_is_meant() -> None:
    read = script(REAL)
    assert read.is_chained_array and read.sets("pipefail") and read.sets("e") and read.sets("l")
    assert [launch.python_script for _, launch in read.work] == ["train.py"]
    assert [trap.signals for trap in read.traps] == [("USR1", "TERM")]
    assert read.shell.unreadable == []


def read_all(data: bytes) -> None:
    """Everything that rules ask for."""
    for read in scripts_in(BatchScript(Source("x", data))):
        assert all(0 <= c.begin <= c.end <= len(read.source.data) for c in read.commands)
        for command, launch in read.launches:
            for word in command.words:
                assert len(read.choices(word)) <= 12
            assert len(launch.python_script) < 100_000
            assert command.span.line <= read.source.line_count
        assert len(read.work) <= len(read.commands)
        assert read.uses_lastgood in (True, False)
        assert read.sets("e", "pipefail") in (True, False)


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read(data: bytes) -> None:
    read_all(data)


PIECES = "$ ${ } $( ) ` \" ' \\ # #SBATCH \n ; & | && || ( ) { } < > << <<EOF EOF = += [ [[ ]] ]] * ? ~ ! if fi then do done while for in case esac function f() \0 \r \xff é".split(
    " "
)


@given(st.lists(st.sampled_from([*PIECES, " ", "\n", "a", "X", "eval", "trap", "bash -c", "srun"]), max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_heap_of_shell_pieces_is_read(pieces: list[str]) -> None:
    read_all("".join(pieces).encode("utf-8", "surrogateescape"))
    read_all(" ".join(pieces).encode("utf-8", "surrogateescape"))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_real_script_is_read_with_any_part_missing_repeated_or_spoilt(data: st.DataObject) -> None:
    text = REAL.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        begin, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        middle = data.draw(
            st.sampled_from([b"", text[begin:end] * 2, b"\0", b"'", b'"', b"$(", b"${", b"\xff", b"<<EOF\n"])
        )
        text = text[:begin] + middle + text[end:]
    read_all(text)


HOSTILE = {
    "values that double": "A0=xx\n" + "".join(f"A{i + 1}=$A{i}$A{i}$A{i}\n" for i in range(60)) + "a $A60 ${A60%x*}\n",
    "a long chain of values": "A0=x\n" + "".join(f"A{i + 1}=$A{i}\n" for i in range(3000)) + "a $A3000\n",
    "branches that multiply": "".join(f"q && A{i}=$A{i - 1}$A{i - 1} || A{i}=$A{i - 2}x\n" for i in range(2, 60)) + "a $A59\n",
    "many values of one name": "A=$A$B; q && A=$B$A; B=$A\n" * 500 + "a $A $B\n",
    "deep substitutions": "a " + "$(b " * 2000 + ")" * 2000,
    "deep defaults": "a " + "${b:-" * 2000 + "}" * 2000,
    "deep groups": "{ " * 3000 + "a; " + "}; " * 3000,
    "deep loops": "while :; do " * 1000 + "a; " + "done; " * 1000,
    "a long list": "a && " * 3000 + "b",
    "a long pipe": "a | " * 3000 + "b",
    "a long pipe of redirections": "a 2>&1 | " * 1500 + "b",
    "eval of eval": "eval " * 300 + "a",
    "shells in shells": "bash -c " * 300 + "a",
    "many here-documents": "cat <<EOF\n#!/bin/bash\n#SBATCH -n 1\na\nEOF\n" * 300,
    "calls in circles": "f() { g $1; }\ng() { f $1; }\nf $X\n",
    "open here-documents": "a <<E <<F <<G\n" * 50,
    "quotes that never end": "a '" + "b\n" * 2000 + '"' + "$X" * 2000,
    "one long word": "a " + "$X" * 20_000,
    "cuts": "X=" + "ab" * 2000 + "\na ${X%*a*a*a*b*c} ${X##*b*b*b*c*}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_script_is_read_in_bounded_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted by the words that are made: a clock would tell of the machine."""
    from lastgood.audit.batch.words import Word

    made = 0
    plain = Word.of

    def of(self: Word, parts: object) -> Word:
        nonlocal made
        made += 1
        return plain(self, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(Word, "of", of)
    read_all(HOSTILE[name].encode())
    assert made < 200_000
