import signal
from pytorch_lightning import Trainer
from project import Data, Module

trainer = Trainer(max_steps=100000)


def melk(*args, **kwargs):
    if trainer.global_rank == 0:
        trainer.save_checkpoint("last.ckpt")


signal.signal(signal.SIGUSR1, melk)
trainer.fit(Module(), Data(), ckpt_path="last.ckpt")
