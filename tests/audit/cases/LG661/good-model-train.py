from transformers import AutoModel
from project import Trainer, optimizer

model = AutoModel.from_pretrained("bert-base-cased")
model.train()
Trainer(model, optimizer).train()
