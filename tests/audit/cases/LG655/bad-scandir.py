import os
from accelerate import Accelerator
from project import Net, loader, optimizer

accelerator = Accelerator()
model, optimizer, data = accelerator.prepare(Net(), optimizer(), loader())
dirs = [entry.name for entry in os.scandir(os.getcwd()) if entry.is_dir()]
dirs.sort(key=os.path.getctime)
if dirs:
    accelerator.load_state(dirs[-1])
for step, (x, y) in enumerate(data):
    accelerator.backward(model(x, y))
    optimizer.step()
    if step % 100 == 0:
        accelerator.save_state(f"step_{step}")
