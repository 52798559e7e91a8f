"""Where the work of a script keeps what it saves: the paths that it is given, and where it stands. Pure."""

import bisect
import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from lastgood.audit.batch.changes import is_absolute
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Part, Word

_FOR_CHECKPOINTS = re.compile(
    r"""(.*[-.])?(ckpt|ckpts|checkpoint|checkpoints|chkpt|chkpts|snapshot|snapshots|restart)
        [-.]?(s[-.])?(dir|dirpath|directory|path|folder|root|prefix|location|save-path|save-dir|out|output|out-dir|output-dir)
    |write-checkpoints-to
    |(model[-.]|.*\.)?save[-.]?(dir|dirpath|directory|path|folder|root|location|ckpts?|checkpoints?)([-.]?(dir|path|folder))?
    |save|resume-dir
    """,
    re.VERBOSE,
)
_FOR_OUTPUT = re.compile(
    r"""(.*[-.])?(
    (out|output|outputs|result|results|run|runs|exp|experiment|work|working|log|logs|default-root)
        [-.]?(dir|directory|folder|root|path)
    |hydra\.run\.dir|hydra\.sweep\.dir
    )""",
    re.VERBOSE,
)
_NOT_WRITTEN = re.compile(
    r"pretrain|init|from|load|teacher|input|data(?!-parallel)|vocab|token|cache|config|source|src|model-(dir|path|folder)|wandb|tensorboard|profil|ref-|reward"
)
_CHECKPOINT_VARIABLE = re.compile(
    r"((.*_)?(CKPTS?|CHECKPOINTS?|CHKPT|SNAPSHOTS?)|(MODEL_)?SAVE)_?(S_)?(DIR|PATH|ROOT|FOLDER|DIRECTORY)(_.*)?\Z"
)
_RESUMES = re.compile(
    r"-*((.*[-.])?(auto-?)?(resume|resuming|restore|autoresume)([-.].*)?|continue|continue-(from|training|run).*|restart([-.].*)?|cpi|load-checkpoint.*|load-dir|load)\Z"
)
_BY_ITSELF = ("auto", "true", "latest", "last", "1", "yes", "must", "allow", "if_exists", "null", "")
_NOT_AT_ALL = ("false", "no", "0", "none", "never")
_HYDRA = re.compile(r"\+{0,2}([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
_TRAINING = re.compile(
    r"(pre|fine)?[-_]?(re)?(train|training|tune|tuning|trainer|sft|pretrain|finetune|finetuning|dpo|ppo|grpo|rlhf)s?\Z"
)
_READS = re.compile(
    r"(eval|evaluate|evaluation|test|testing|infer|inference|predict|prediction|generate|sample|sampling|convert|export|chat|selfchat)\Z"
)
_EPOCHS = re.compile(
    r"-*(.*\.)?(n|num|max|total)?-?(train|training)?-?epochs?\Z|-*(.*\.)?((max|total|num)-)?(train|training)-(steps|iters|iterations)\Z"
)
_LOOK_BACK = 50
MOST_WORK = 200
"""So many programs of one script are looked at; more of them are made by a program, and alike."""
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")


class Place(msgspec.Struct, frozen=True):
    """A path that a program of the work is given to write to."""

    option: str
    """As it is written, such as "--save"; the variable's name where the path is one of those."""
    choices: tuple[Word, ...]
    """All that the path can be."""
    written: Word
    """The word in the script, for its place."""
    command: Command
    launch: Launch
    is_for_checkpoints: bool
    """Surely so, by its name; other directories of a training program hold checkpoints, too, as a rule."""


@lru_cache(maxsize=4)
def places_of(script: BatchScript) -> tuple[Place, ...]:
    """The directories for checkpoints, or for all results, that the programs of the work are given."""
    found: dict[tuple[int, str], Place] = {}
    for command, launch in script.work[:MOST_WORK]:
        if only_reads(launch):
            continue
        for place in _of_command(script, command, launch):
            found.setdefault((command.begin, place.option), place)
    places = [*found.values(), *_exported(script)]
    # A directory for logs holds more than that only where a program is given no other one.
    others = {place.command.begin for place in places if "log" not in place.option.lower()}
    return tuple(p for p in places if "log" not in p.option.lower() or p.command.begin not in others)


def resumes_by_itself(place: Place) -> bool:
    """True if a program is told to go on where it was: `--resume`, `--resume auto`, or `--load` with the path of `--save`."""
    own = {choice.text for choice in place.choices}
    return any(
        value is None or value.text.lower() in _BY_ITSELF or value.text in own for value in _resumptions(place.launch)
    )


def resumes_from_elsewhere(place: Place) -> bool:
    """True if a program is told from which other path to resume."""
    known = {*_BY_ITSELF, *(choice.text for choice in place.choices)}
    return any(
        value is not None and not {value.text, value.text.lower()} & known for value in _resumptions(place.launch)
    )


def is_told_to_resume(launch: Launch) -> bool:
    return any(True for _ in _resumptions(launch))


def _resumptions(launch: Launch) -> Iterator[Word | None]:
    """What options such as `--resume` are given."""
    words = launch.words[1:]
    for word, following in zip(words, [*words[1:], None], strict=False):
        name, value = _option_of(word)
        if not name or not _RESUMES.match(name):
            continue
        if (
            value is None
            and following is not None
            and not following.text.startswith("-")
            and not _option_of(following)[0]
        ):
            value = following
        if value is None or value.text.lower() not in _NOT_AT_ALL:
            yield value


def only_reads(launch: Launch) -> bool:
    """True if a program evaluates, tests or predicts: what it is given as a checkpoint is there already."""
    name = launch.python_script.rpartition("/")[2].removesuffix(".py").lower()
    texts = [word.text.lower() for word in launch.words]
    at = next((i for i, text in enumerate(texts) if text.endswith(".py")), 0)
    command = texts[at + 1] if at + 1 < len(texts) else ""
    pieces = re.split(r"[-_.]", name)
    return any(_READS.match(piece) for piece in [*pieces, command]) and not any(map(_TRAINING.match, pieces))


def is_training(launch: Launch) -> bool:
    """True if a program is one that trains, by its launcher, its name or the options that it is given."""
    if any(wrapper.name in _LAUNCHERS for wrapper in launch.wrappers):
        return True
    name = launch.python_script.rpartition("/")[2].removesuffix(".py").lower()
    if any(_TRAINING.match(piece) for piece in re.split(r"[-_.]", name)):
        return True
    return any(_EPOCHS.match(option) for option, _ in map(_option_of, launch.words[1:]))


def saves(launch: Launch) -> bool:
    """True if a program is told to save checkpoints, or to resume from them."""
    words = [word.text.replace("_", "-").replace("=", " ") for word in launch.words[1:]]
    if "--save-strategy no" in " ".join(words) or only_reads(launch):
        return False
    names = [name for name, _ in map(_option_of, launch.words[1:]) if name]
    return any(
        _RESUMES.match(n) or _is_for_checkpoints(n) or re.match(r"-*save[-.](interval|freq|steps|every|strategy)", n)
        for n in names
    )


def _of_command(script: BatchScript, command: Command, launch: Launch) -> Iterator[Place]:
    words = launch.words[1:]
    for i, word in enumerate(words):
        name, value = _option_of(word)
        if not name or _NOT_WRITTEN.search(name):
            continue
        is_for_checkpoints = _is_for_checkpoints(name)
        if not is_for_checkpoints and not _FOR_OUTPUT.fullmatch(name.lstrip("-")):
            continue
        if value is None and i + 1 < len(words) and not words[i + 1].text.startswith("-"):
            value = words[i + 1]
        if value is not None and value.parts:
            written = _written(command, value)
            choices = _choices(script, value, written)
            yield Place(word.text.partition("=")[0], choices, written, command, launch, is_for_checkpoints)
    yield from _in_variables(script, command, launch)


def _in_variables(script: BatchScript, command: Command, launch: Launch) -> Iterator[Place]:
    """Paths that only a variable's name tells of: `python train.py $CKPT_DIR`."""
    for word in command.words[1:]:
        for part in word.parts:
            if part.kind == "variable" and _CHECKPOINT_VARIABLE.match(part.text.upper()):
                path = Word((Part("variable", part.text, f"${part.text}"),), word.span, word.begin, word.end)
                if _is_option_to_load(command, word):
                    continue
                yield Place(f"${part.text}", tuple(script.choices(path)), word, command, launch, True)


def _is_option_to_load(command: Command, word: Word) -> bool:
    at = command.words.index(word)
    name, _ = _option_of(word)
    before, _ = _option_of(command.words[at - 1]) if not name else ("", None)
    return bool(_NOT_WRITTEN.search(name or before) or _RESUMES.match(name or before))


def _exported(script: BatchScript) -> Iterator[Place]:
    """Directories for checkpoints that programs are told by an exported variable."""
    work = script.work
    if not work:
        return
    used = {name for command, _ in work for word in command.words for name in word.variables}
    for assignment in script.shell.assignments:
        is_exported = script.source.data[: assignment.begin].rstrip().endswith(b"export")
        if not is_exported or assignment.value is None or assignment.name in used or assignment.around.is_conditional:
            continue
        if _CHECKPOINT_VARIABLE.match(assignment.name.upper()) and not _NOT_WRITTEN.search(assignment.name.lower()):
            later = [found for found in work if found[0].begin > assignment.begin]
            if later:
                choices = tuple(script.choices(assignment.value))
                yield Place(f"${assignment.name}", choices, assignment.value, *later[0], True)


def _option_of(word: Word) -> tuple[str, Word | None]:
    """(name in lower case with dashes, value if it is in the same word); ("", None) for what is no option.

    Hydra's `trainer.default_root_dir=x` is an option, too.
    """
    first = word.parts[0] if word.parts else None
    if first is None or first.kind != "text":
        return "", None
    text = first.text
    if text.startswith("-") and len(text) > 1:
        name, equals, value = text.partition("=")
    else:
        match = _HYDRA.match(text)
        if match is None:
            return "", None
        name, equals, value = match[1], "=", match[2]
    normal = name.lower().replace("_", "-")
    if not equals:
        return normal, None
    rest = (Part("text", value, value),) if value else ()
    return normal, word.of((*rest, *word.parts[1:]))


def _is_for_checkpoints(name: str) -> bool:
    return _FOR_CHECKPOINTS.fullmatch(name.lstrip("-")) is not None


def _written(command: Command, value: Word) -> Word:
    """The word of the command that a resolved word comes from."""
    return next((word for word in command.words if word.begin <= value.begin < word.end), command.words[0])


def _choices(script: BatchScript, value: Word, written: Word) -> tuple[Word, ...]:
    """All that the value of an option can be.

    One that stands in the command itself has the choices of its variables; one that comes out of a variable with a whole list of
    options is taken as it is.
    """
    options = script.choices(written)
    if len(options) < 2:
        return (value,)
    name, _ = _option_of(written)
    if not name:
        return tuple(options) if any(option.text == value.text for option in options) else (value,)
    values = [inner for option in options if (inner := _option_of(option)[1]) is not None]
    return tuple(values) or (value,)


def directory_of(script: BatchScript, command: Command) -> Word | None:
    """Where a command runs, as far as the script says; None for where the job was submitted, or where it is not known."""
    behind: list[Word] = []
    moves = script.moves
    at = bisect.bisect_left(moves, command.begin, key=lambda move: move.begin)
    for move in reversed(moves[max(0, at - _LOOK_BACK) : at]):
        around = move.around
        if around.in_substitution or around.within == "trap" or around.function not in ("", command.around.function):
            continue
        if around.in_subshell and not command.around.in_subshell:
            continue
        target = _target(script, move)
        if target is None:
            return None
        behind.append(target)
        if is_absolute(target):
            break
    if not behind or (len(behind) > 1 and any(word.text.startswith("..") for word in behind[:-1])):
        return None
    found = behind[-1]
    for word in reversed(behind[:-1]):
        found = found.beside(word, "/")
    return None if found.text.startswith(".") else found


def _target(script: BatchScript, move: Command) -> Word | None:
    """Where a `cd` goes to; None where it may not run, goes back, or cannot be told."""
    is_after_success = script.source.data[: move.begin].rstrip().endswith(b"&&")
    if move.name == "popd" or (move.around.is_conditional and not is_after_success):
        return None
    targets = [word for word in script.words(move)[1:] if word.text not in ("--", "-P", "-L")]
    return targets[0] if len(targets) == 1 and targets[0].text != "-" else None
