from transformers import AutoModel, Trainer, TrainingArguments
from project import data, loss_of


class Weighted(Trainer):
    def compute_loss(self, model, inputs, **rest):
        return loss_of(model, inputs)


Weighted(AutoModel.from_pretrained("bert-base-cased"), TrainingArguments("out"), train_dataset=data()).train()
