"""LG656: the only checkpoint is written over itself."""

from collections.abc import Iterator

from lastgood.audit.python.checkpoints import PROGRESS
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_main or program.is_owned:
        return
    checkpoints = program.checkpoints
    regular = [save for save in program.saves if program.flow.loops_around(save.call) and not save.is_weights_only]
    # A name with a number in it leaves the checkpoint before it alone; what we do not see through may do so, too.
    if any(save.target is None or not save.is_plain or checkpoints.is_numbered(save) for save in regular):
        return
    for save in regular:
        if checkpoints.is_of_the_best(save) or checkpoints.is_renamed(save) or save.holds == {PROGRESS}:
            continue
        is_read_again = any(
            checkpoints.is_same_file(save, load) and program.flow.comes_before(load.call, save.call)
            for load in program.loads
        )
        is_resumed = save.is_for_resuming and any(load.is_file for load in program.loads)
        is_of_a_job = program.is_job and save in checkpoints.in_training
        if not ((is_of_a_job and is_resumed) or (is_read_again and (is_of_a_job or not program.flow.has_training))):
            continue
        others = checkpoints.is_copied(save) or any(other is not save and other.is_for_resuming for other in regular)
        yield Hit(
            span=program.span(save.call),
            message="each save writes over the one before, in place: a kill in the middle of it leaves a torn file "
            + ("as the newest" if others else "and no other checkpoint"),
            remedy='write to a temporary name, then `os.replace("last.pt.tmp", "last.pt")`; better keep the two newest',
            severity=Severity.NOTE if others else None,
        )
        return


RULE = Rule(
    code="LG656",
    name="only-checkpoint-written-in-place",
    severity=Severity.MAY_BE_LOST,
    what="A checkpoint that is saved again and again to one path, without a temporary name and a rename.",
    why="`torch.save`, `np.save` and `pickle.dump` empty the file first, and write then. Jobs are killed often in "
    "just that time, because a save is made when the end of the job is near, and because a full disk shows "
    "itself there. Afterwards the old checkpoint is gone, and the new one cannot be read.",
    bad="""\
import os

import torch

from project import Net, batches


def main():
    model = Net()
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
            torch.save(state, "last.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch

from project import Net, batches


def main():
    model = Net()
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
    safe_to_ignore="What is lost with the file is minutes of work.",
    source='rename(2); reports of "unexpected EOF" on load after a kill; observed with `kill -9` during torch.save',
    reads=Program,
    check=check,
)
