import lightning as L
from project import Data, Module

trainer = L.Trainer(max_epochs=100)
trainer.fit(Module(), datamodule=Data(), ckpt_path="last")
