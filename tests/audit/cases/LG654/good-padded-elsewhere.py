from pathlib import Path
import lightning as L
from project import Net, loader, optimizer

fabric = L.Fabric()
out, step = Path("out"), 0
model, optimizer = fabric.setup(Net(), optimizer())
found = sorted(out.glob("*.pth"))
state = {"model": model, "optimizer": optimizer, "step": 0}
if found:
    fabric.load(found[-1], state)
for x, y in fabric.setup_dataloaders(loader()):
    fabric.backward(model(x, y))
    optimizer.step()
    state["step"] += 1
    if state["step"] % 1000 == 0:
        path = out / f"iter-{state['step']:06d}-ckpt.pth"
        fabric.save(path, state)
