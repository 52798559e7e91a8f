"""F9: which samples a job sees after it was killed in the middle of an epoch."""

from collections import Counter

from nine_faults.lab import KILLED_AT, NEWEST, TOTAL, Cell, Lab

EPOCH = range(29, 57)
"""The steps of the second epoch, in whose middle the checkpoint of step 40 lies."""


def order_after_resume(lab: Lab) -> Cell:
    texts, notes, rights = [], [], []
    for loader in lab.system.loaders:
        text, is_right = _with_loader(lab, loader)
        name = {"": "", "plain": "DataLoader(shuffle=True): "}[loader]
        texts.append(name + text)
        rights.append(is_right)
        notes.append(f"{loader or 'the usual loader'}: {text}")
    return Cell("; ".join(texts), all(rights), notes)


def _with_loader(lab: Lab, loader: str) -> tuple[str, bool]:
    reference = lab.run_from_nothing(loader=loader)
    first = lab.killed(KILLED_AT, loader=loader)
    started = lab.start(loader=loader)
    outcome = started.finish()
    if outcome.code != 0 or outcome.resumed != NEWEST:
        raise RuntimeError(f"a clean resume failed: exit {outcome.code}, from step {outcome.resumed}")
    second = started.trace.lives[-1]
    after = range(NEWEST + 1, TOTAL + 1)
    equal = sum(second.samples[step] == reference.samples[step] for step in after)
    seen = Counter(n for step in EPOCH for n in (first if step <= NEWEST else second).samples[step])
    twice = sum(count > 1 for count in seen.values())
    never = sum(1 for step in EPOCH for n in reference.samples[step] if n not in seen)
    text = f"{equal}/{len(after)} equal; {twice} twice"
    return text + (f", {never} never" if never else ""), equal == len(after) and twice == never == 0
