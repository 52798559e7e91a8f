import lightning as L
from project import Data, Module

if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=100, devices=4)
    trainer.fit(Module(), datamodule=Data())
