"""LG661: a trainer that saves checkpoints is started without them."""

from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.python.trainers import FRAMEWORKS, loads_before, saves_nothing, starts
from lastgood.audit.rule import Context, Hit, Rule, Severity

_TRIES = ("ray", "optuna", "hyperopt")
# Short trials that are not resumed one by one.


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_main or program.is_of_minutes or any(program.uses(owner) for owner in ("lastgood", *_TRIES)):
        return
    for start in starts(program):
        words = FRAMEWORKS[start.framework]
        if any(word.encode() in program.source.data for word in words.resume_words) or saves_nothing(program, start):
            return
        if loads_before(program, start):
            return
        yield Hit(
            span=program.span(start.call),
            message=f"`{program.syntax.text(start.call.func)}` begins at step 0 in each start: the checkpoints that it saves are not looked at "
            "when the job is requeued or started again",
            remedy=words.remedy,
        )
        return


RULE = Rule(
    code="LG661",
    name="trainer-does-not-resume",
    severity=Severity.MAY_BE_LOST,
    what="`trainer.train()` of transformers or `trainer.fit()` of Lightning that is told nothing of checkpoints.",
    why="These trainers save by themselves, and look for what they saved only if they are asked to. A job that is "
    "requeued starts from zero without a word, and may write over the checkpoints it could have used.",
    bad="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from project import data


def main():
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    arguments = TrainingArguments(output_dir="out", save_steps=500, num_train_epochs=10)
    trainer = Trainer(model=model, args=arguments, train_dataset=data("train"))
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
""",
    good="""\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from project import data


def main():
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    arguments = TrainingArguments(output_dir="out", save_steps=500, num_train_epochs=10)
    trainer = Trainer(model=model, args=arguments, train_dataset=data("train"))
    trainer.train(resume_from_checkpoint=get_last_checkpoint("out"))
    trainer.save_model()


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="The training takes minutes.",
    source='transformers, Trainer.train(resume_from_checkpoint); Lightning, Trainer.fit(ckpt_path="last")',
    reads=Program,
    check=check,
)
