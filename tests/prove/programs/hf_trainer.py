"""A Hugging Face Trainer as its users write it: a tiny GPT-2 made from a config, on tokens made up here. Nothing is
downloaded."""

import os
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

torch.set_num_threads(1)
set_seed(7)
tokens = torch.randint(0, 64, (96, 16), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": row, "labels": row} for row in tokens]
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))


class Step(TrainerCallback):
    """Tells the step; and waits until whoever is to kill this has looked: a model of this size would be trained before."""

    def on_step_end(self, args, state, control, **others):
        print(f"step {state.global_step}", flush=True)
        looks = os.environ.get("LOOKS")
        before = os.path.getsize(looks) if looks else -1
        while looks and os.path.getsize(looks) == before:
            time.sleep(0.001)
        time.sleep(0.06)


arguments = TrainingArguments(
    output_dir="out",
    max_steps=30,
    per_device_train_batch_size=8,
    learning_rate=1e-3,
    logging_steps=1,
    save_steps=5,
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    seed=7,
)
trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Step()])
last = get_last_checkpoint("out") if os.path.isdir("out") else None
trainer.train(resume_from_checkpoint=last)
trainer.save_model("final")
