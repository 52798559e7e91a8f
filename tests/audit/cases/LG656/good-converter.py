import sys
import torch

for path in sys.argv[1:]:
    state = torch.load(path, weights_only=True)
    torch.save({name: value.clone() for name, value in state.items()}, path)
