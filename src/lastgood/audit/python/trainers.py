"""Trainers that own the loop and its checkpoints: transformers and Lightning. Pure."""

import ast
from collections.abc import Iterator

import msgspec

from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import last


class Framework(msgspec.Struct, frozen=True):
    method: str
    """What starts the training."""
    resume_words: tuple[str, ...]
    """Where one of them is in a program, it minds its checkpoints."""
    off_words: tuple[tuple[str, str], ...]
    """Arguments with which nothing is saved."""
    remedy: str


FRAMEWORKS = {
    "transformers": Framework(
        "train",
        ("resume", "get_last_checkpoint", "last_checkpoint"),
        (("save_strategy", "'no'"), ("save_strategy", "IntervalStrategy.NO"), ("save_steps", "0")),
        "`trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))`, which is None in the first start",
    ),
    "lightning": Framework(
        "fit",
        ("ckpt_path", "resume", "auto_requeue", "restore"),
        (
            ("enable_checkpointing", "False"),
            ("checkpoint_callback", "False"),
            ("fast_dev_run", "True"),
            ("logger", "False"),
        ),
        '`trainer.fit(model, ckpt_path="last")`, which starts anew where there is none',
    ),
}


class Start(msgspec.Struct, frozen=True):
    call: ast.Call
    framework: str


def starts(program: Program) -> list[Start]:
    """Where trainers are started."""
    return list(_starts(program))


def saves_nothing(program: Program, start: Start) -> bool:
    """It is told to save no checkpoints."""
    off = set(FRAMEWORKS[start.framework].off_words)
    given = {
        (keyword.arg or "", ast.unparse(keyword.value)) for call in program.syntax.calls for keyword in call.keywords
    }
    return bool(off & given)


def _starts(program: Program) -> Iterator[Start]:
    for name, framework in FRAMEWORKS.items():
        if not program.uses(name):
            continue
        for call in program.syntax.called.get(framework.method, ()):
            if isinstance(call.func, ast.Attribute) and _is_trainer(program, call.func.value):
                yield Start(call, name)


def _is_trainer(program: Program, receiver: ast.expr) -> bool:
    made = {id(call) for call in program.trainers}
    return any(
        id(value) in made
        or (isinstance(value, ast.Call) and last(program.syntax.name_of(value.func)) == "from_argparse_args")
        for value in program.values.of(receiver)
    )
