"""A batch script as rules see it."""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from lastgood.audit.batch.directives import Header, read_header
from lastgood.audit.batch.programs import Launch, Wrapper, launch_of
from lastgood.audit.batch.shell import Command, HereDoc, Shell, Trap, read_shell
from lastgood.audit.batch.values import Values
from lastgood.audit.batch.words import Word
from lastgood.audit.source import Source, Span

SETUP = frozenset(
    """
    . : [ [[ alias awk aws basename bc break cat cd chgrp chmod chown cmake comm conda continue cp curl cut date deactivate declare df diff dirname du
    echo eval exit export expr false find free getopts git grep gunzip gzip hash head hostname id kill ldd let ln local ls lscpu
    mail make mamba md5sum mkdir mktemp ml module mv nproc nvidia-smi pip pip3 popd printenv printf ps pushd pwd read readarray
    readlink readonly realpath return rm rmdir rsync sacct sacctmgr sbatch scancel scontrol scp sed seff select seq set sha256sum shift
    shopt sinfo sleep sort source spack squeue ssh sshare sstat stat sync tail tar tee test timedatectl touch tr trap true truncate
    type typeset ulimit umask unalias uname uniq unset unzip uptime wait wc wget whereis which whoami xargs zip
    """.split()
)
"""Commands around the work: no job is made of them."""
_BLANKS = bytes(c if c in b"\r\n" else 32 for c in range(256))
_MOST_EMBEDDED = 30
_QUESTIONS = ("--version", "-V", "--help", "-h", "-version")


class BatchScript:
    """A Slurm batch script: what sbatch takes from it, and what its shell does.

    `embedded` are scripts that it writes or submits with a here-document; they are audited as scripts of their own.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.header: Header = read_header(source)
        self.shell: Shell = read_shell(source)

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def commands(self) -> list[Command]:
        """All simple commands in the order of the text, also those in functions, traps and strings that are run."""
        return self.shell.commands

    @property
    def traps(self) -> list[Trap]:
        return self.shell.traps

    @property
    def is_array(self) -> bool:
        return self.header.get("array") is not None

    @property
    def is_chained_array(self) -> bool:
        """Tasks run one after the other (`%1`): they are segments of one job."""
        return self.header.value("array").endswith("%1")

    @cached_property
    def uses_lastgood(self) -> bool:
        """Its work runs under our launcher, which owns restarts, signals and exit codes."""
        return any(launch.wrapper("lastgood") for _, launch in self.launches)

    def words(self, command: Command) -> list[Word]:
        """A command's words with the variables replaced that the script itself sets, split where that makes several.

        `CMD="srun python"; $CMD a.py` gives srun, python, a.py.
        """
        known = self._known_words.get(id(command))
        if known is None or known[0] is not command:
            known = self._known_words[id(command)] = command, self._find_words(command)
        return known[1]

    @cached_property
    def _known_words(self) -> dict[int, tuple[Command, list[Word]]]:
        """By the command's identity, because its value is long."""
        return {}

    def _find_words(self, command: Command) -> list[Word]:
        words: list[Word] = []
        for word in command.words:
            resolved = self.resolve(word)
            is_bare = word.variables and self.source.data[word.begin : word.begin + 1] == b"$"
            words += resolved.split() if is_bare or word.is_all_of_an_array else [resolved]
        return words

    def resolve(self, word: Word, before: int | None = None) -> Word:
        """A word with the values that the script gives to its variables above offset `before` (default: the word).

        Where branches give several values it is the last of them: see `choices`.
        """
        return self._values.resolve(word, word.begin if before is None else before)

    def choices(self, word: Word) -> list[Word]:
        """All that a word can be, where branches of the script give different values to its variables."""
        return self._values.choices(word, word.begin)

    @cached_property
    def _values(self) -> Values:
        return Values(self.source, self.shell)

    def launch(self, command: Command) -> Launch:
        """The program that a command runs in the end, behind wrappers and variables.

        What stands in a string that `srun bash -c` runs is behind `srun`, too, and behind a wrapper "shell".
        """
        launch = launch_of(self.words(command))
        outer = command.around.outer
        if outer is None or outer.name == "eval":
            return launch
        around = self.launch(outer)
        shell = Wrapper("shell", around.words)
        return Launch((*around.wrappers, shell, *launch.wrappers), launch.words)

    @cached_property
    def launches(self) -> list[tuple[Command, Launch]]:
        """Every command with what it comes to."""
        return [(command, self.launch(command)) for command in self.commands]

    @cached_property
    def work(self) -> list[tuple[Command, Launch]]:
        """The commands that the job is there for: not those that prepare, look, copy or clean up.

        Commands of traps, of substitutions and of functions that nobody calls are left out; so are conditions.
        """
        return [
            (command, launch)
            for command, launch in self.launches
            if self._is_work(command, launch) and self._is_reached(command)
        ]

    @cached_property
    def moves(self) -> list[Command]:
        """The commands that go to another directory."""
        return [command for command in self.commands if command.name in ("cd", "pushd", "popd")]

    def follows(self, command: Command) -> list[Command]:
        """What runs behind a command at its own level, in the order of the text; traps, functions and substitutions are
        left out."""
        return [
            other
            for other in self.commands
            if other.begin >= command.end
            and other.around.within != "trap"
            and other.around.function == command.around.function
            and not other.around.in_substitution
        ]

    def sets(self, *options: str) -> bool:
        """True if the shell is given one of these options, as "pipefail" or "e" (`set -e`, `set -euo pipefail`,
        `#!/bin/bash -e`)."""
        first = self.source.line(1) if self.source.data.startswith(b"#!") else ""
        shebang = [word for word in first.split()[1:] if word.startswith("-")]
        words = [
            word.text
            for command in self.commands
            if command.name == "set" and not command.around.in_substitution
            for word in command.arguments
        ]
        letters = {letter for word in [*shebang, *words] if word.startswith("-") for letter in word[1:]}
        return any(option in words or (len(option) == 1 and option in letters) for option in options)

    @cached_property
    def embedded(self) -> "list[BatchScript]":
        """Scripts in here-documents: with `#SBATCH` lines, or given to sbatch."""
        scripts = (doc for doc in self.shell.heredocs if self._is_script(doc))
        return [self._inner(doc) for doc in islice(scripts, _MOST_EMBEDDED)]

    def variables_of(self, word: Word) -> tuple[str, ...]:
        """Names of all variables that a word depends on after the script's own values are put in."""
        return self.resolve(word).variables

    def line(self, number: int) -> Span:
        return self.source.span_of_line(number)

    def _is_work(self, command: Command, launch: Launch) -> bool:
        if command.around.in_substitution or command.around.within == "trap":
            return False
        if not launch.words:
            return False
        program = launch.program
        if program in SETUP or program in self.shell.functions:
            return False
        if program in ("bash", "sh", "dash", "zsh") and launch.words[1:2] and launch.words[1].text.endswith("c"):
            # What is in the string is a command of its own here.
            return False
        if program == "python" and launch.words[1:2] and launch.words[1].text in ("-c", "-V", "--version", "-"):
            return False
        if program == "python" and [w.text for w in launch.words[1:3]] in (["-m", "pip"], ["-m", "venv"]):
            return False
        return not (len(launch.words) == 2 and launch.words[1].text in _QUESTIONS)

    def _is_reached(self, command: Command) -> bool:
        return not command.around.function or command.around.function in self._named

    @cached_property
    def _named(self) -> set[str]:
        """All that is called, or named in an argument."""
        return {name for command in self.commands for name in (command.name, *(w.text for w in command.arguments))}

    def _is_script(self, doc: HereDoc) -> bool:
        body = self.source.data[doc.begin : doc.end].lstrip()
        if not body.startswith(b"#!"):
            return b"\n#SBATCH" in b"\n" + body and not _is_printed(doc)
        return b"\n#SBATCH" in body or (doc.command is not None and doc.command.name == "sbatch")

    def _inner(self, doc: HereDoc) -> "BatchScript":
        """With blanks for all that stands before it, so that offsets and lines are those of the whole file."""
        before = self.source.data[: doc.begin].translate(_BLANKS)
        return BatchScript(Source(self.path, before + self.source.data[doc.begin : doc.end]))


def _is_printed(doc: HereDoc) -> bool:
    """`cat << EOF` alone: how to use the script."""
    command = doc.command
    if command is None or command.name != "cat" or command.around.pipe_length > 1:
        return False
    return not any(">" in redirect.operator for redirect in command.redirects)


def scripts_in(script: BatchScript) -> Iterator[BatchScript]:
    """The script and all that are embedded in it, at any depth."""
    yield script
    for inner in script.embedded:
        yield from scripts_in(inner)
