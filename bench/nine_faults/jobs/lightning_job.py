"""Lightning: ModelCheckpoint with `save_last`, and `ckpt_path="last"`."""

import logging
import warnings

import digits
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from nine_faults.recorder import SAVE_EVERY, Recorder

warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


class Digits(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = digits.network()

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        images, labels, _ = batch
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        self.log("global_step_done", float(self.global_step + 1))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Record(lightning.Callback):
    """Lightning calls it before ModelCheckpoint, which it moves to the end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def on_train_start(self, trainer, pl_module):  # type: ignore[no-untyped-def]
        self._recorder.resumed(trainer.global_step)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):  # type: ignore[no-untyped-def]
        self._recorder.step(trainer.global_step, outputs["loss"].item(), batch[2].tolist())


def main() -> None:
    recorder = Recorder()
    digits.begin()
    lightning.seed_everything(digits.SEED, verbose=False)
    saving = ModelCheckpoint(
        dirpath=recorder.store,
        every_n_train_steps=SAVE_EVERY,
        save_last=True,
        save_top_k=3,
        monitor="global_step_done",
        mode="max",
    )
    trainer = lightning.Trainer(
        max_steps=recorder.total,
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        callbacks=[Record(recorder), saving],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=recorder.store,
    )
    model = Digits()
    loader = torch.utils.data.DataLoader(digits.data(), batch_size=digits.BATCH, shuffle=True)
    trainer.fit(model, loader, ckpt_path="last", weights_only=False)
    if trainer.global_step == recorder.total:
        recorder.final(model)


main()
