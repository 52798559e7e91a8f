"""What a container runs: its words, and the script if a shell runs one, with places in the manifest."""

import re
from functools import cached_property

import msgspec
import yaml

from lastgood.audit.batch.programs import Launch, launch_of
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Part, Word
from lastgood.audit.kubernetes.templates import UNKNOWN
from lastgood.audit.kubernetes.values import Value
from lastgood.audit.source import Source, Span

SHELLS = ("sh", "bash", "dash", "ash", "zsh")
INITS = ("tini", "dumb-init", "catatonit", "tini-static", "s6-overlay")
_PROGRAM = re.compile(
    r"(.*/)?(python[\d.]*|env|exec|mpirun|mpiexec|torchrun|accelerate|deepspeed|[\w-]+\.(py|sh))\Z|/.*/\w+\Z"
)
_EXPANDED = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_WRITTEN = re.compile(r"\$(?:\(([A-Za-z_]\w*)\)|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


class ShellText:
    """A script that stands in a manifest, read as a script of its own."""

    def __init__(self, value: Value, shell: str, has_init: bool, options: tuple[str, ...], names: set[str]) -> None:
        self.value = value
        self.shell = shell
        """"sh", "bash", ..."""
        self.has_init = has_init
        """An init runs the shell, which is then not process 1."""
        self.options = options
        """Those in front of the script, such as "-euo"."""
        # Kubernetes puts in `$(X)` where X is a variable of the container; for anything else it is the shell's.
        text = _EXPANDED.sub(lambda m: f"${{{m[1]}}}" if m[1] in names else m[0], value.text())
        self.script = BatchScript(Source(value.source.path, text.encode("utf-8", "surrogateescape")))
        self._first, self._indent = self._where()

    def sets(self, option: str, letter: str = "") -> bool:
        """True if the shell is given an option such as "pipefail" or ("errexit", "e"), in front of the script or in it."""
        letters = {character for word in self.options if word[:1] == "-" and word[1:2] != "-" for character in word[1:]}
        asked = (option, letter) if letter else (option,)
        return option in self.options or (letter in letters if letter else False) or self.script.sets(*asked)

    @property
    def lines(self) -> range:
        """The lines of the file that it stands in."""
        node = self.value.node
        return range(self.value.base + node.start_mark.line + 1, self.value.base + node.end_mark.line + 1)

    def place(self, span: Span) -> Span:
        """Where a place in the script is in the manifest: exactly in a block of text that keeps its lines, otherwise
        the line that holds the same words."""
        whole = self.value.span
        if self._first:
            line, source = self._first + span.line - 1, self.value.source
            if line <= source.line_count:
                width = len(source.line(line).rstrip()) + 1
                begin = min(span.column + self._indent, width)
                is_one_line = span.end_line == span.line
                return Span(line, begin, line, min(span.end_column + self._indent, width) if is_one_line else width)
        words = self.script.source.line(span.line)[span.column - 1 :][:200].split()
        last = self.value.base + self.value.node.end_mark.line + 1
        lines = range(whole.line, min(last, self.value.source.line_count) + 1)
        # A command can go on in the next line: its first words are enough, but one alone may stand anywhere.
        for count in range(min(len(words), 6), 1, -1):
            wanted = " ".join(words[:count])
            for line in lines:
                at = self.value.source.line(line).find(wanted)
                if at >= 0:
                    return Span(line, at + 1, line, len(self.value.source.line(line).rstrip()) + 1)
        return whole

    def _where(self) -> tuple[int, int]:
        """(line of the file in which the text begins, columns in front of it), (0, 0) if its lines were joined."""
        node, source = self.value.node, self.value.source
        begin = self.value.base + node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            return 0, 0
        if node.style != "|":
            is_plain = node.start_mark.line == node.end_mark.line
            column = node.start_mark.column + (node.style in ('"', "'"))
            raw = source.line(begin)[column:] if is_plain else ""
            return (begin, column) if is_plain and raw.startswith(node.value) else (0, 0)
        for number, line in enumerate(node.value.split("\n")):
            at = begin + 1 + number
            if line.strip() and at <= source.line_count:
                raw = source.line(at)
                indent = len(raw) - len(line)
                is_same = indent >= 0 and raw[indent:].rstrip() == line.rstrip()
                return (begin + 1, indent) if is_same or UNKNOWN in line else (0, 0)
        return 0, 0


class Run(msgspec.Struct, frozen=True):
    """One program of a container that is there for the work."""

    launch: Launch
    command: Command | None
    """In the container's script; None if the container runs the program itself."""
    shell: ShellText | None

    def place(self, word: Word) -> Span:
        return word.span if self.shell is None else self.shell.place(word.span)

    @property
    def span(self) -> Span:
        if self.shell is not None and self.command is not None:
            return self.shell.place(self.command.span)
        return self.launch.words[0].span


class Container:
    """One container of a pod; for what has no pod of its own, such as a TrainJob's trainer, what comes nearest."""

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def name(self) -> str:
        return self.value.text("name")

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Command and arguments, as they are written; variables of the shell's form stay."""
        values = self.value.elements("command") + self.value.elements("args")
        return tuple(Word((Part("text", v.text(), v.text()),), v.span, 0, 0) for v in values if _is_text(v))

    @cached_property
    def shell(self) -> ShellText | None:
        """The script of `sh -c SCRIPT`, also behind an init."""
        values = [v for v in self.value.elements("command") + self.value.elements("args") if _is_text(v)]
        texts = [v.text() for v in values]
        has_init = False
        for i, text in enumerate(texts):
            name = text.rpartition("/")[2]
            if name in INITS:
                has_init = True
            elif name in SHELLS:
                for j in range(i + 1, len(texts) - 1):
                    if re.fullmatch(r"-[a-z]*c[a-z]*", texts[j]):
                        options = tuple(texts[i + 1 : j + 1])
                        at = j + 2 if texts[j + 1] == "--" and len(texts) > j + 2 else j + 1
                        return ShellText(values[at], name, has_init, options, set(self.environment))
                    if not re.fullmatch(r"[-+][a-zA-Z]+|pipefail|errexit|--\w+", texts[j]):
                        break
                return None
            elif not text.startswith("-") and name != "env":
                return None
        return None

    @cached_property
    def runs(self) -> list[Run]:
        """The programs that it is there for."""
        if self.shell is not None:
            return [Run(launch, command, self.shell) for command, launch in self.shell.script.work if launch.words]
        words = [word for word in self.words if word.text]
        if words and not self.value.elements("command") and not _PROGRAM.match(words[0].text):
            # Arguments for a program that only the image knows.
            words.insert(0, Word((Part("variable", "entrypoint", ""),), words[0].span, 0, 0))
        launch = launch_of(words)
        return [Run(launch, None, None)] if launch.words else []

    @cached_property
    def environment(self) -> dict[str, Value]:
        """Its variables' entries by name."""
        return {entry.text("name"): entry for entry in self.value.elements("env") if entry.text("name")}

    def expand(self, text: str, depth: int = 4) -> str:
        """A text with the values of variables that the manifest itself gives."""

        def value_of(match: re.Match[str]) -> str:
            entry = self.environment.get(match[1] or match[2] or match[3])
            value = entry.text("value") if entry is not None else ""
            return value or match[0]

        expanded = _WRITTEN.sub(value_of, text) if "$" in text else text
        return expanded if depth == 0 or expanded == text else self.expand(expanded, depth - 1)

    def fields_in(self, text: str, depth: int = 4) -> set[str]:
        """Fields of the pod, such as "metadata.name", that the variables in a text come from."""
        fields: set[str] = set()
        for match in _WRITTEN.finditer(text):
            entry = self.environment.get(match[1] or match[2] or match[3])
            if entry is None:
                continue
            fields.add(entry.text("valueFrom", "fieldRef", "fieldPath"))
            if depth and entry.text("value"):
                fields |= self.fields_in(entry.text("value"), depth - 1)
        return fields - {""}

    @cached_property
    def mounts(self) -> list[Value]:
        return self.value.elements("volumeMounts")

    def mount_of(self, path: str) -> Value | None:
        """The mount that holds a path: the longest one that fits."""
        best: tuple[int, Value] | None = None
        for mount in self.mounts:
            at = mount.text("mountPath").rstrip("/")
            if at and (path + "/").startswith(at + "/") and (best is None or len(at) > best[0]):
                best = (len(at), mount)
        return best[1] if best is not None else None

    def resources(self) -> set[str]:
        """Names of what it asks for, such as "nvidia.com/gpu"."""
        found = {
            key
            for kind in ("limits", "requests")
            for key, _ in (self.value.get("resources", kind) or self.value).items()
        }
        return found | {key for key, _ in (self.value.get("resourcesPerNode", "limits") or self.value).items()}


def _is_text(value: Value) -> bool:
    return isinstance(value.node, yaml.ScalarNode)
