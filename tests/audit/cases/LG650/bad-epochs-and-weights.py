import torch
from project import Net, loader


class Trainer:
    def __init__(self, path):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.path = path
        self.epochs_run = 0
        try:
            snapshot = torch.load(path, weights_only=True)
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
        except FileNotFoundError:
            print("no snapshot: starting anew")

    def _save(self, epoch):
        snapshot = {"MODEL_STATE": self.model.state_dict(), "EPOCHS_RUN": epoch}
        torch.save(snapshot, self.path)

    def train(self, epochs):
        for epoch in range(self.epochs_run, epochs):
            self.model.train()
            for x, y in loader():
                self.optimizer.zero_grad()
                self.model(x, y).backward()
                self.optimizer.step()
            self._save(epoch)


if __name__ == "__main__":
    Trainer("snapshot.pt").train(10)
