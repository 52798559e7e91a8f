"""Lines that look like directives to people, and not to sbatch. Pure."""

import re
from collections.abc import Iterator, Sequence

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.source import Span

_LIKE_ONE = re.compile(r"#(?P<blank>[ \t]*)(?P<word>[A-Za-z]{5,7})[ \t]+(?=-{1,2}[A-Za-z])")
_MAGIC = "SBATCH"
_ABOUT_FAILURES = ("requeue", "signal", "open-mode", "time", " -t", "array", "dependency")


def is_embedded(script: BatchScript) -> bool:
    """True for a script in a here-document: nothing stands in its first line."""
    return not script.source.line(1).strip()


def is_template(script: BatchScript) -> bool:
    """True where the file's name says that something else makes scripts of it."""
    return "templ" in script.path.rpartition("/")[2].lower() or script.path.lower().endswith(
        (".j2", ".in", ".tpl", ".tmpl")
    )


def first_command(script: BatchScript) -> int:
    """The line of the first command, behind which sbatch looks for nothing; one behind the last line if there is none."""
    source = script.source
    for number in range(1, source.line_count + 1):
        bare = source.line(number).strip()
        if bare and not bare.startswith("#"):
            return number
    return source.line_count + 1


def is_about_failures(script: BatchScript, lines: Sequence[Span]) -> bool:
    """Whether one of these lines says what becomes of the job when something fails."""
    return any(word in script.source.line(span.line) for span in lines for word in _ABOUT_FAILURES)


def late_directives(script: BatchScript) -> list[Span]:
    """Lines that begin with `#SBATCH` behind the first command; not those in the text of another script."""
    if not script.header.too_late:
        return []
    texts = [(doc.begin, doc.end) for doc in script.shell.heredocs]
    texts += [(word.begin, word.end) for command in script.commands for word in command.words]
    texts += [(assignment.begin, assignment.end) for assignment in script.shell.assignments]
    texts = [(begin, end) for begin, end in texts if b"\n" in script.source.data[begin:end]]
    starts = [(span, script.source.bounds_of_line(span.line)[0]) for span in script.header.too_late]
    return [span for span, at in starts if not any(begin < at < end or begin == at for begin, end in texts)]


def misspelled_directives(script: BatchScript) -> Iterator[tuple[Span, bool]]:
    """(line, whether only a blank is wrong) of comments in front of the first command that were surely meant for sbatch.

    `##SBATCH` and, beside real directives, `# SBATCH` are how people take a directive out, `# sbatch -N 2 job.sh` is how
    they say what to type, and other schedulers have marks of their own.
    """
    own = script.source
    for number in range(1, min(first_command(script), own.line_count + 1)):
        match = _LIKE_ONE.match(own.line(number))
        if match is None or own.line(number).startswith("#" + _MAGIC):
            continue
        word = match["word"]
        if match["blank"]:
            if word == _MAGIC and not script.header.directives:
                yield own.span_of_line(number), True
        elif not word.islower() and _is_like_it(word.upper()):
            yield own.span_of_line(number), False


def _is_like_it(word: str) -> bool:
    """The mark in other case, or with two letters exchanged, or one missing, doubled or, behind the first, another one."""
    if len(word) == len(_MAGIC):
        wrong = [i for i in range(len(word)) if word[i] != _MAGIC[i]]
        return sorted(word) == sorted(_MAGIC) or (len(wrong) == 1 and wrong[0] > 0)
    shorter, longer = sorted((word, _MAGIC), key=len)
    # A letter in front (`#xSBATCH`) is a way to take it out.
    places = range(len(word) > len(_MAGIC), len(longer))
    return len(longer) - len(shorter) == 1 and any(longer[:i] + longer[i + 1 :] == shorter for i in places)
