from transformers import AutoModel, Trainer, TrainingArguments
from project import arguments, data

trainer = Trainer(AutoModel.from_pretrained("bert-base-cased"), TrainingArguments("out"), train_dataset=data())
trainer.train(resume_from_checkpoint=arguments().resume_from_checkpoint)
