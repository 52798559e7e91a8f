import lightning as L
import optuna
from project import Data, Module


def objective(trial):
    trainer = L.Trainer(max_epochs=3)
    trainer.fit(Module(trial.suggest_float("lr", 1e-5, 1e-1)), Data())
    return trainer.callback_metrics["loss"].item()


optuna.create_study().optimize(objective, n_trials=100)
