from transformers import AutoModel, Trainer, TrainingArguments
from project import data

options = TrainingArguments("out", save_strategy="no", max_steps=100)
trainer = Trainer(AutoModel.from_pretrained("bert-base-cased"), options, train_dataset=data())
trainer.train()
