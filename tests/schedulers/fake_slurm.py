"""Slurm's commands, faked: for failures that are hard to cause for real, and for speed."""

from pathlib import Path

COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sacct")

_SCRIPT = """\
#!/bin/sh
# Keeps its arguments, then answers by the snippet for this call, or for every call.
name=${{0##*/}}
number=$(($(ls '{calls}' | grep -c "^$name-") + 1))
if [ $# -gt 0 ]; then printf '%s\\0' "$@" > '{calls}'/"$name-$number"; else : > '{calls}'/"$name-$number"; fi
for answer in '{answers}'/"$name-$number" '{answers}'/"$name"; do
    if [ -e "$answer" ]; then . "$answer"; exit; fi
done
echo "$name: error: nobody told the fake what to answer" >&2
exit 1
"""


class FakeSlurm:
    """A directory for PATH. `answer("sbatch", "echo 7")`: a snippet of shell, for every call or for one, from 1."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self._calls = directory / "calls"
        self._answers = directory / "answers"
        for made in (self.bin, self._calls, self._answers):
            made.mkdir(parents=True)
        for command in COMMANDS:
            path = self.bin / command
            path.write_text(_SCRIPT.format(calls=self._calls, answers=self._answers))
            path.chmod(0o755)
        self.answer("squeue", "exit 0")
        self.answer("scancel", "exit 0")

    def answer(self, command: str, snippet: str, call: int | None = None) -> None:
        name = command if call is None else f"{command}-{call}"
        (self._answers / name).write_text(snippet + "\n")

    def remove(self, command: str) -> None:
        (self.bin / command).unlink()

    def calls(self, command: str) -> list[list[str]]:
        """The arguments of each call, in order."""
        files = sorted(self._calls.glob(f"{command}-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        return [file.read_text().split("\0")[:-1] for file in files]
