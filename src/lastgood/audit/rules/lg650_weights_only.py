"""LG650: only the weights are saved while the program trains."""

from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    saves = program.checkpoints.in_training
    if not program.is_job or program.is_owned or program.is_of_minutes or not program.optimizers or not saves:
        return
    # One save of something that we do not see through may hold all the rest.
    if not all(save.is_weights_only for save in program.saves):
        return
    regular = [save for save in saves if not program.checkpoints.is_of_the_best(save)]
    first = (regular or saves)[0]
    continues = any(
        load.how.endswith("load_state_dict") and program.flow.comes_before_training(load.call) for load in program.loads
    )
    lost = "without the optimizer's state (momentum, step counts), its learning rate schedule and the random state"
    yield Hit(
        span=program.span(first.call),
        message=f"only the weights are saved: a run that goes on from them does so {lost}, and is another run"
        if regular or continues
        else f"only the best weights are saved, nothing to go on from: after a failure the training starts again, or {lost}",
        remedy='save all: `{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, ...}`, and load it at '
        "the start",
        severity=None if regular and continues else Severity.NOTE,
    )


RULE = Rule(
    code="LG650",
    name="weights-only",
    severity=Severity.MAY_BE_LOST,
    what="A training program whose saves hold a model's weights and nothing of the optimizer.",
    why="Adam keeps two values for each weight, and counts steps; a schedule knows how far it is. Without them "
    "the loss jumps after a restart, the learning rate warms up again, and epochs are done twice. For a model "
    "that is to be used, weights are enough; to go on after a failure they are not.",
    bad="""\
import os

import torch
from torch.utils.data import DataLoader

from project import Data, Net


def main():
    torch.manual_seed(1)
    model, data = Net(), DataLoader(Data(), batch_size=64)
    optimizer = torch.optim.Adam(model.parameters())
    if os.path.exists("model.pt"):
        model.load_state_dict(torch.load("model.pt", weights_only=True))
    for epoch in range(100):
        for x, y in data:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "model.pt.tmp")
        os.replace("model.pt.tmp", "model.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch
from torch.utils.data import DataLoader

from project import Data, Net


def main():
    torch.manual_seed(1)
    model, data = Net(), DataLoader(Data(), batch_size=64)
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start = last["epoch"] + 1
    for epoch in range(start, 100):
        for x, y in data:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        state["random"] = torch.get_rng_state()
        torch.save(state, "last.pt.tmp")
        os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="The training takes minutes, or what is saved is the result, and a run that failed is started anew on "
    "purpose.",
    source='PyTorch, tutorial "Saving and loading a general checkpoint"; reports of loss that jumps after a resume',
    reads=Program,
    check=check,
)
