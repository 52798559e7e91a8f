"""What brings a job back, and whether it then goes on where it was: by the script's own text. Pure."""

import re
from collections.abc import Sequence

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Word
from lastgood.audit.policy import Policy

_RESUMES = re.compile(
    r"resum|restart|continu(?!e\s*(;|$))|ckpt|checkp|chkpt|chkpnt|restor|recover|warm[-_]?start|-cpi\b|latest|last\.pt"
    r"|load[-_](?!module)|[-_]load\b|init[-_]from|from[-_]pretrained[-_]state|start[-_]?(from|epoch|iter|step)|savestate|snapshot"
    r"|\.(pth?|ckpt|cpt|chk|h5|hdf5|pkl|rst)\b|state[-_]?file|finetune[-_]from|CONTCAR|already (done|exist|finished)|skip[-_]?(existing|done|finished)",
    re.IGNORECASE | re.MULTILINE,
)
_RESUME_OPTION = re.compile(
    r"(--?|\+*)(?!no|not|dont|disable|without)[\w.-]*?(?<![a-z])(auto[-_]?resume|resume|restart|continue|cpi)(?![a-z])",
    re.IGNORECASE,
)
_NO = ("", "none", "null", "false", "0", "no", "never")
_BY_ITSELF = re.compile(
    r"snakemake|nextflow|cromwell|toil|luigi|parsl|make\Z|wandb\Z|bilby|scr_run|scr_srun|rclone|rsync|globus|raxml|iqtree|dask"
)
"""Programs that find by themselves what is done already."""
_ONE_PASS = re.compile(
    r"eval|infer|predict|generat|extract|preproc|convert|download|upload|test|analy|plot|bench|tokeniz|inspect|export|manifest",
    re.IGNORECASE,
)
"""Work that passes over its input once, and can be cut into parts: a checkpoint is not the answer."""
_KNOWN = re.compile(r"gmx|mdrun|namd|lmp|lammps|\w+Foam\Z|relion|pw\.x|cp\.x|cp2k|vasp|amber|pmemd|charmm|orca|g16|g09")
"""Applications whose restart has rules of its own."""
_COUNTS = re.compile(
    r"RESTART_COUNT|Restarts=|restart_?count|max_?(re)?(tries|try|starts|queues|submits?|attempts)|attempts?\b|\bretr(y|ies)\b"
    r"|-(lt|le|ge)\b|-gt\b(?!\s*[\"']?0\b)|\(\(",
    re.IGNORECASE,
)
_ANY_FAILURE = re.compile(
    r"\[+\s*\"?\$\{?(\?|\w*(?:rc|ret|status|code|exit|err)\w*)\}?\"?\s*(-ne|!=|-gt)\s*\"?0\"?\s*\]+(?:(?!\b(fi|else|elif)\b).)*\Z",
    re.DOTALL | re.IGNORECASE,
)
_LOOK_BACK = 300
_SELF = re.compile(r"\$\{?(0|BASH_SOURCE)\b")
_NO_JOB = re.compile(
    r"(-z\s*|!\s*(-n\s*|-v\s*)?)[\"']?(\$\{?)?SLURM_(JOB_?ID|JOB_NAME|NODELIST)\b|SLURM_JOB_?ID(:?[-+]\w*)?\}?[\"']?\s*==?\s*[\"']{2}"
)
_NEAR = 400
_JOB_IDS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID")


def may_resume(script: BatchScript) -> bool:
    """True if anything in the script hints that the program goes on where it was. Comments do not count."""
    return _RESUMES.search(_code(script)) is not None


def seems_to_resume(script: BatchScript) -> bool:
    """True if a program is told so: by an option such as `--resume`, `-cpi` or `trainer.resume=auto`."""
    for _, launch in script.work:
        for i, word in enumerate(launch.words[1:], 1):
            name, equals, value = word.text.partition("=")
            match = _RESUME_OPTION.match(name)
            if match is None or not (name.startswith("-") or equals):
                continue
            if (value if equals else _text(launch.words[i + 1 : i + 2]) or "yes").lower() not in _NO:
                return True
    return False


def _text(words: Sequence[Word]) -> str:
    return words[0].text if words else ""


def needs_no_resume(launch: Launch) -> bool:
    """True for programs that resume by themselves, that other rules know better, or for which it is not worth while."""
    names = [word.text.rpartition("/")[2] for word in launch.words[:3]]
    return any(_BY_ITSELF.search(name) or _KNOWN.match(name) or _ONE_PASS.search(name) for name in names)


def counts_restarts(script: BatchScript) -> bool:
    """True if anything in the script looks like a limit: a count, or a comparison of numbers."""
    return _COUNTS.search(_code(script)) is not None


def may_be_requeued(script: BatchScript, policy: Policy | None) -> bool | None:
    """Whether Slurm may start the job again; None if neither the script nor the policy says."""
    if script.header.get("requeue") is not None:
        return True
    if script.header.get("no-requeue") is not None:
        return False
    return policy.is_true("JobRequeue") if policy is not None else None


def requeues_itself(script: BatchScript, command: Command) -> bool:
    """True for `scontrol requeue` of the job itself."""
    if b"requeue" not in script.source.data[command.begin : command.end]:
        return False
    launch = script.launch(command)
    is_requeue = launch.program == "scontrol" and any(word.text.startswith("requeue") for word in launch.words[1:3])
    return is_requeue and any(name in _JOB_IDS for word in launch.words for name in word.variables)


def submits_itself(script: BatchScript, command: Command) -> bool:
    """True for `sbatch $0`, or sbatch with the script's own name, as an argument or as its input."""
    if command.name != "sbatch" or _is_outside_of_a_job(script, command):
        return False
    own = script.path.rpartition("/")[2]
    read = [redirect.target for redirect in command.redirects if redirect.operator == "<"]
    return any(_is_own(script, word, own) for word in (*command.arguments, *read))


def _is_outside_of_a_job(script: BatchScript, command: Command) -> bool:
    """`if [ -z "$SLURM_JOB_ID" ]; then sbatch "$0"; exit; fi`: a script that can be started by hand is no chain."""
    return _NO_JOB.search(script.source.text(max(0, command.begin - _NEAR), command.begin)) is not None


def after_any_failure(script: BatchScript, command: Command, depth: int = 0) -> bool:
    """True if every failure of a program leads to the command: it stands behind `||`, or in `if [ $? -ne 0 ]`."""
    text = script.source.text(command.begin, command.end)
    programs = [other for other in script.commands if other.name not in ("test", "mkdir", "grep", "ls", "cd")]
    if any(text in other.around.rescued_by and other.end <= command.begin for other in programs):
        return True
    before = script.source.text(max(0, command.begin - _LOOK_BACK), command.begin)
    if command.around.is_conditional and _ANY_FAILURE.search(before) is not None:
        return True
    callers = [other for other in script.commands if other.name and other.name == command.around.function]
    return depth < 3 and any(after_any_failure(script, caller, depth + 1) for caller in callers)


def _is_own(script: BatchScript, word: Word, own: str) -> bool:
    raw = script.source.text(word.begin, word.end)
    return bool(_SELF.search(raw)) or (bool(own) and script.resolve(word).text.rpartition("/")[2] == own)


def comes_back_by_itself(script: BatchScript) -> bool:
    """True if the script itself brings the job back: it submits or requeues something, or is one of a chain."""
    return (
        script.is_chained_array
        or script.header.value("dependency").startswith("singleton")
        or any(command.name in ("sbatch", "scontrol", "lastgood") for command in script.commands)
    )


def _code(script: BatchScript) -> str:
    return "\n".join(line for line in _lines(script) if not line.startswith("#"))


def _lines(script: BatchScript) -> list[str]:
    return [line.strip() for line in script.source.text(0, len(script.source.data)).split("\n")]
