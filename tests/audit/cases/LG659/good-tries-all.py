import glob
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.Adam(model.parameters())
for path in sorted(glob.glob("epoch*.pt"), reverse=True):
    try:
        last = torch.load(path, weights_only=True)
        model.load_state_dict(last["model"])
        break
    except Exception:
        print(path, "is damaged")
for epoch in range(50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"epoch{epoch:04d}.pt")
