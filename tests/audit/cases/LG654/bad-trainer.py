import os
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from project import data

model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=data())
newest = max(name for name in os.listdir("out") if name.startswith("checkpoint-"))
trainer.train(resume_from_checkpoint=os.path.join("out", newest))
