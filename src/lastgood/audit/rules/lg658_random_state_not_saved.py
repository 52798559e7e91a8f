"""LG658: a resumed run draws the random numbers of its beginning again."""

import ast
import re
from collections.abc import Iterator

from lastgood.audit.python.checkpoints import WHOLE
from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import last
from lastgood.audit.rule import Context, Hit, Rule, Severity

_DRAWS = re.compile(
    rb"shuffle|dropout|RandomSampler|rand(?:perm|int|n|om_)|random\.(?:choice|sample|random|uniform)|augment",
    re.IGNORECASE,
)
_WORDS = (
    b"rng_state",
    b"getstate",
    b"random.get_state",
    b"set_epoch",
    b"initial_seed",
    b"StatefulDataLoader",
    b"skip_first_batches",
)


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned or program.uses("accelerate"):
        return
    seeds = [call for call in program.syntax.calls if _is_fixed_seed(program, call)]
    saves = [save for save in program.checkpoints.in_training if save.is_for_resuming and WHOLE not in save.holds]
    resumes = any("optim" in load.how for load in program.loads)
    if (
        not seeds
        or not saves
        or not resumes
        or _minds_the_random_state(program)
        or not _DRAWS.search(program.source.data)
    ):
        return
    yield Hit(
        span=program.span(saves[0].call),
        message="the random state is not in the checkpoint, and line "
        f"{seeds[0].lineno} sets the seed at each start: a resumed run draws the numbers of its beginning again (order of data, "
        "augmentation, dropout)",
        remedy="add `\"random\": torch.get_rng_state()` (also CUDA's, NumPy's and Python's) and restore it last of all",
    )


def _is_fixed_seed(program: Program, call: ast.Call) -> bool:
    """It is set once, in each start, and to the same number."""
    if program.flow.loops_around(call) or program.flow.tests_around(call):
        return False
    if any(program.path_parts(value).times for value in call.args):
        return False
    return last(program.syntax.name_of(call.func)) in (
        "manual_seed",
        "seed_everything",
        "set_seed",
        "set_random_seed",
        "seed",
        "init_seeds",
        "manual_seed_all",
    )


def _minds_the_random_state(program: Program) -> bool:
    return any(word in program.source.data for word in _WORDS)


RULE = Rule(
    code="LG658",
    name="random-state-not-saved",
    severity=Severity.NOTE,
    what="A program that sets a seed, saves and resumes, and saves no random state.",
    why="After a resume the seed is that of the first start. The data are shuffled as in the first epoch, noise "
    "and dropout repeat: what the model sees is not what it would have seen. Two runs with the same seed, one "
    "disturbed, give different results.",
    bad="""\
import os

import torch

from project import Net, batches


def main():
    torch.manual_seed(1)
    model = Net(dropout=0.1)
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        start = last["step"] + 1
    for step, (x, y) in enumerate(batches(start), start):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, "last.pt.tmp")
            os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch

from project import Net, batches


def main():
    torch.manual_seed(1)
    model = Net(dropout=0.1)
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start = last["step"] + 1
    for step, (x, y) in enumerate(batches(start), start):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            state["random"] = torch.get_rng_state()
            torch.save(state, "last.pt.tmp")
            os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="Other random numbers are as good, and results need not be the same.",
    source='PyTorch, "Reproducibility"; reports of data order that repeats after a resume',
    reads=Program,
    check=check,
)
