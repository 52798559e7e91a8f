import torch
from project import Net, images

model = Net()
model.load_state_dict(torch.load("model.pt", weights_only=True))
for image in images():
    torch.save(model(image), image.name + ".pt")
