"""Hugging Face's Trainer: a model of its own kind built from a config, and `get_last_checkpoint`."""

import digits
import torch
from nine_faults.recorder import SAVE_EVERY, Recorder
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class DigitsConfig(PretrainedConfig):
    model_type = "digits"


class DigitsModel(PreTrainedModel):
    config_class = DigitsConfig

    def __init__(self, config: DigitsConfig) -> None:
        super().__init__(config)
        self.network = digits.network()
        self.seen: tuple[float, list[int]] = (0.0, [])
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """PyTorch's own."""

    def forward(self, images: torch.Tensor, labels: torch.Tensor, number: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.network(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        self.seen = (loss.item(), number.tolist())
        return {"loss": loss, "logits": logits}


class Samples(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self._tensors = digits.data().tensors

    def __len__(self) -> int:
        return digits.SAMPLES

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        images, labels, numbers = self._tensors
        return {"images": images[at], "labels": labels[at], "number": numbers[at]}


class Record(TrainerCallback):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def on_train_begin(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
        self._recorder.resumed(state.global_step)

    def on_step_end(self, args, state, control, model, **kwargs):  # type: ignore[no-untyped-def]
        self._recorder.step(state.global_step, *model.seen)


def main() -> None:
    recorder = Recorder()
    digits.begin()
    arguments = TrainingArguments(
        output_dir=str(recorder.store),
        max_steps=recorder.total,
        per_device_train_batch_size=digits.BATCH,
        learning_rate=1e-3,
        save_steps=SAVE_EVERY,
        save_total_limit=3,
        logging_steps=1,
        seed=digits.SEED,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    model = DigitsModel(DigitsConfig())
    trainer = Trainer(model, arguments, train_dataset=Samples(), callbacks=[Record(recorder)])
    last = get_last_checkpoint(str(recorder.store)) if recorder.store.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    if trainer.state.global_step == recorder.total:
        recorder.final(model)


main()
