"""Trainers that own the loop and its checkpoints: transformers and Lightning. Pure."""

import ast
from collections.abc import Iterator

import msgspec

from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import written


class Framework(msgspec.Struct, frozen=True):
    modules: tuple[str, ...]
    """How the names of its own classes begin."""
    method: str
    """What starts the training."""
    resume_words: tuple[str, ...]
    """Where one of them is in a program, it minds its checkpoints."""
    off_words: tuple[tuple[str, str], ...]
    """Arguments with which nothing is saved."""
    remedy: str


FRAMEWORKS = {
    "transformers": Framework(
        ("transformers.", "trl.", "optimum."),
        "train",
        ("resume", "get_last_checkpoint", "last_checkpoint"),
        (("save_strategy", "'no'"), ("save_strategy", "IntervalStrategy.NO"), ("save_steps", "0")),
        "`trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))`, which is None in the first start",
    ),
    "lightning": Framework(
        ("pytorch_lightning.", "lightning.", "pl."),
        "fit",
        ("ckpt_path", "resume", "auto_requeue", "restore"),
        (
            ("enable_checkpointing", "False"),
            ("checkpoint_callback", "False"),
            ("fast_dev_run", "True"),
            ("logger", "False"),
        ),
        '`ModelCheckpoint(dirpath=..., save_last=True)` and `trainer.fit(model, ckpt_path="last")`, which starts anew where there is none',
    ),
}


class Start(msgspec.Struct, frozen=True):
    call: ast.Call
    framework: str


def starts(program: Program) -> list[Start]:
    """Where trainers are started."""
    return list(_starts(program))


def loads_before(program: Program, start: Start) -> bool:
    """What is trained may have been loaded from a checkpoint before."""
    names = ("load_state_dict", "load_from_checkpoint", "load_checkpoint", "load_weights")
    return any(call.lineno < start.call.lineno for name in names for call in program.syntax.called.get(name, ()))


def saves_nothing(program: Program, start: Start) -> bool:
    """It is told to save no checkpoints."""
    off = set(FRAMEWORKS[start.framework].off_words)
    given = {(keyword.arg or "", written(keyword.value)) for call in program.syntax.calls for keyword in call.keywords}
    return bool(off & given)


def _starts(program: Program) -> Iterator[Start]:
    for name, framework in FRAMEWORKS.items():
        if not program.uses(name):
            continue
        for call in program.syntax.called.get(framework.method, ()):
            if not isinstance(call.func, ast.Attribute) or not _is_trainer(program, call.func.value, framework):
                continue
            if name == "transformers" and (call.args or call.keywords):
                # Older versions are told a checkpoint by position or as model_path.
                continue
            yield Start(call, name)


def _is_trainer(program: Program, receiver: ast.expr, framework: Framework) -> bool:
    made = [value for value in program.values.of(receiver) if isinstance(value, ast.Call)]
    return any(_is_of_framework(program, value.func, framework, 0) for value in made)


def _is_of_framework(program: Program, made_by: ast.expr, framework: Framework, depth: int) -> bool:
    """A trainer's class of the framework itself, or one that this file derives from it."""
    name = program.syntax.name_of(made_by)
    if name.endswith("TFTrainer"):
        # It looks for its newest checkpoint by itself.
        return False
    if name.startswith(framework.modules) and ("Trainer" in name or name.endswith("from_argparse_args")):
        return True
    bases = program.syntax.classes.get(name, [])
    return depth < 3 and any(_is_of_framework(program, base, framework, depth + 1) for base in bases)
