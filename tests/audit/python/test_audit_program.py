"""What a Python program's text tells of how it saves, resumes and stops."""

import ast
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.audit.python.checkpoints import OPTIMIZER, PROGRESS, RANDOM, UNKNOWN, WEIGHTS, WHOLE
from lastgood.audit.python.program import Program
from lastgood.audit.source import Source

LOOP = """
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
"""


def program(text: str, path: str = "train.py") -> Program:
    return Program(Source(path, dedent(text).encode()))


def holds(text: str) -> set[str]:
    """What the only save in a program holds."""
    (save,) = program(text).saves
    return set(save.holds)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("model.state_dict()", {WEIGHTS}),
        ("model.module.state_dict()", {WEIGHTS}),
        ("net", {WEIGHTS}),
        ("optimizer.state_dict()", {OPTIMIZER}),
        ("{'m': model.state_dict(), 'o': opt.state_dict()}", {WEIGHTS, OPTIMIZER}),
        ("{'state_dict': model.state_dict(), 'epoch': epoch}", {WEIGHTS, PROGRESS}),
        ("dict(model=model.state_dict(), optim=o.state_dict())", {WEIGHTS, OPTIMIZER}),
        ("{'model': model.state_dict(), 'rng': torch.get_rng_state()}", {WEIGHTS, RANDOM}),
        ("{**everything, 'model': model.state_dict()}", {WEIGHTS, UNKNOWN}),
        ("collect()", {UNKNOWN}),
        ("trainer_state", {UNKNOWN}),
        ("{'opt': opt.state_dict(), 'options': 1}", {OPTIMIZER}),
    ],
)
def test_what_a_checkpoint_holds(value: str, parts: set[str]) -> None:
    assert holds(f"import torch\ntorch.save({value}, 'a.pt')\n") == parts


def test_a_dictionary_that_is_filled_later() -> None:
    text = """
    from torch import save as write
    state = {}
    state["model"] = model.state_dict()
    state["optimizer"] = optimizer.state_dict()
    write(state, "a.pt")
    """
    assert holds(text) == {WEIGHTS, OPTIMIZER}


def test_what_is_saved_is_followed_through_a_function_of_the_file() -> None:
    text = """
    import torch

    def save(state, name="last.pt"):
        torch.save(state, name)

    save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    save(obj={"x": 1}, name="other.pt")
    """
    found = program(text)
    (save,) = found.saves
    assert save.holds == {WEIGHTS, OPTIMIZER}
    assert save.target is not None
    assert set(found.path_parts(save.target).literals) == {"last.pt", "other.pt"}


@pytest.mark.parametrize(
    ("text", "how", "target"),
    [
        ("import numpy as np\nnp.savez('a.npz', x=x)", "numpy.savez", "'a.npz'"),
        ("import numpy\nnumpy.save(file=name, arr=x)", "numpy.save", "name"),
        ("import pickle\nwith open('a.pkl', 'wb') as f:\n    pickle.dump(x, f)", "pickle.dump", "'a.pkl'"),
        ("from joblib import dump\ndump(x, 'a.joblib')", "joblib.dump", "'a.joblib'"),
        ("from safetensors.torch import save_file\nsave_file(w, 'a.st')", "safetensors.torch.save_file", "'a.st'"),
    ],
)
def test_where_it_saves(text: str, how: str, target: str) -> None:
    (save,) = program(text).saves
    assert save.how == how and save.target is not None and ast.unparse(save.target) == target and save.is_plain


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        ("engine.save_checkpoint(directory)", {WHOLE}),
        ("accelerator.save_state('out')", {WHOLE}),
        ("model.save_pretrained('out')", {WEIGHTS}),
        ("model.save_weights('out')", {WEIGHTS}),
        ("agent.save('out')", {UNKNOWN}),
        ("utils.write_ckpt(model)", {UNKNOWN}),
    ],
)
def test_saves_that_are_not_seen_through(call: str, parts: set[str]) -> None:
    (save,) = program(call).saves
    assert save.holds == parts and not save.is_plain


@pytest.mark.parametrize(
    "call",
    [
        "plt.savefig('a.png')",
        "image.save('a.png')",
        "tokenizer.save_pretrained('out')",
        "save_args(args)",
        "json.dump(x, f)",
        "torch.utils.checkpoint.checkpoint(block, x)",
        "self.save_every(10)",
    ],
)
def test_what_is_no_checkpoint(call: str) -> None:
    assert program(f"import torch\n{call}\n").saves == []


def test_only_what_runs_in_a_training_loop_is_saved_while_it_trains() -> None:
    text = """
    import torch

    def save(epoch):
        torch.save(model.state_dict(), f"{epoch}.pt")

    def one_epoch():
        for x, y in batches():
            model(x, y).backward()
            optimizer.step()

    for epoch in range(10):
        one_epoch()
        save(epoch)
    torch.save(model.state_dict(), "final.pt")
    for image in images():
        torch.save(model(image), "image.pt")
    """
    assert [save.call.lineno for save in program(text).checkpoints.in_training] == [5]


def test_training_mode_of_a_model_is_no_call_of_a_function_train() -> None:
    text = """
    import torch

    def train():
        for x, y in batches():
            model.train()
            model(x, y).backward()
        torch.save(model.state_dict(), "final.pt")

    train()
    """
    assert program(text).checkpoints.in_training == []


def test_methods_are_those_of_their_own_class() -> None:
    text = """
    import torch

    class Trainer:
        def run(self):
            for x, y in batches():
                model(x, y).backward()
                self.save()

        def save(self):
            torch.save(model.state_dict(), "a.pt")

    class Report:
        def save(self):
            torch.save(numbers, "b.pt")

    Trainer().run()
    """
    assert [save.call.lineno for save in program(text).checkpoints.in_training] == [11]


@pytest.mark.parametrize(
    ("text", "is_main"),
    [
        ("if __name__ == '__main__':\n    main()\n", True),
        ("for x in range(3):\n    print(x)\n", True),
        ("def run():\n    pass\nrun()\n", True),
        ("from engine import trainer\ntrainer.fit()\n", True),
        ("def run():\n    pass\n", False),
        ("import sys\nsys.path.append('..')\nclass A:\n    pass\n", False),
        ("# In[3]:\nfor x in y:\n    pass\n", False),
    ],
)
def test_what_is_started_itself(text: str, is_main: bool) -> None:
    assert program(text).is_main is is_main


@pytest.mark.parametrize("path", ["tests/train.py", "test_train.py", "src/train_test.py", "conftest.py"])
def test_tests_are_no_jobs(path: str) -> None:
    assert not program(f"optimizer = Adam()\n{LOOP}", path).is_job
    assert program(f"optimizer = Adam()\n{LOOP}", "latest/train.py").is_job


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import signal\nsignal.signal(signal.SIGUSR1, handler)\n", True),
        ("from signal import signal, SIGUSR1\nsignal(SIGUSR1, handler)\n", True),
        ("import signal\nfor s in (signal.SIGTERM, signal.SIGUSR1):\n    signal.signal(s, handler)\n", True),
        ("import signal\nfor s in ['SIGUSR1']:\n    signal.signal(getattr(signal, s), handler)\n", None),
        ("import signal\nWANTED = signal.SIGUSR1\nsignal.signal(WANTED, handler)\n", True),
        ("import asyncio, signal\nloop.add_signal_handler(signal.SIGUSR1, stop)\n", True),
        ("import signal\nsignal.signal(signal.SIGTERM, handler)\n", False),
        ("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)\n", False),
        ("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n", False),
        ("import signal\nsignal.signal(number, handler)\n", None),
        ("import torch\nimport numpy as np\n", False),
        ("import torch\nfrom engine import train\n", None),
        ("from .loop import train\n", None),
        ("import lightning\n", None),
        ("import lastgood\n", True),
    ],
)
def test_whether_it_handles_usr1(text: str, expected: bool | None) -> None:
    assert program(text).handles_signal("USR1") is expected
    assert program(text).handles_signal("SIGUSR1") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"import torch\n{LOOP}", False),
        ("import torch\nfrom project import Net, loader\nmodel = Net()\n" + LOOP, False),
        ("import torch\nmodel.load_state_dict(torch.load('a.pt'))\n", True),
        ("import torch\ndata = torch.load('data/train.pt')\n", False),
        ("import numpy as np\nstate = np.load('state.npz')\n", True),
        ("import yaml\nyaml.safe_load(open('config.yaml'))\n", False),
        ("from project import train\ntrain()\n", True),
        ("parser.add_argument('--resume')\n", True),
        ("from project import Net\nnet = Net(checkpoint_path=args.path)\n", True),
        ("from transformers import Trainer\nTrainer(model).train()\n", True),
        ("import lastgood\n", True),
    ],
)
def test_whether_it_may_load_anything(text: str, expected: bool) -> None:
    assert program(text).loads_anything is expected


def test_paths_that_are_new_in_each_start() -> None:
    text = """
    import os, time, torch
    from datetime import datetime
    name = datetime.now().strftime("%Y")
    out = os.path.join("runs", name, str(os.getpid()))
    torch.save(x, f"{out}/a.pt")
    """
    found = program(text)
    target = found.saves[0].target
    assert target is not None
    assert [ast.unparse(node) for node in found.path_parts(target).times] == ["os.getpid()", "datetime.now()"]


@pytest.mark.parametrize(
    ("path", "is_unpadded"),
    [
        ("f'epoch{epoch}.pt'", True),
        ("f'epoch{epoch:04d}.pt'", False),
        ("'epoch%d.pt' % epoch", True),
        ("'epoch%04d.pt' % epoch", False),
        ("'epoch{}.pt'.format(epoch)", True),
        ("'epoch{:04}.pt'.format(epoch)", False),
        ("'epoch' + str(epoch).zfill(4)", False),
        ("'epoch' + str(state['epoch'])", True),
        ("'last.pt'", False),
    ],
)
def test_numbers_without_leading_zeros(path: str, is_unpadded: bool) -> None:
    found = program(f"import torch\nfor epoch in range(9):\n    torch.save(x, {path})\n")
    target = found.saves[0].target
    assert target is not None and bool(found.path_parts(target).unpadded) is is_unpadded


def test_places_count_characters_also_behind_other_letters() -> None:
    found = program("import torch\nx = 'größer'; torch.save(x, 'a.pt')\n")
    span = found.span(found.saves[0].call)
    assert (span.line, span.column, span.end_column) == (2, 15, 36)


def test_a_call_over_several_lines_is_shown_by_its_first() -> None:
    found = program("import torch\ntorch.save(\n    x,\n    'a.pt',\n)\n")
    span = found.span(found.saves[0].call)
    assert (span.line, span.end_line, span.column, span.end_column) == (2, 2, 1, 12)


@pytest.mark.parametrize(
    "data", [b"print 'x'\n", b"def f(:\n", b"\0", b"x = " + b"(" * 5000, b"\xff\xfe\n", b"if x:\n\tpass\n  pass\n"]
)
def test_what_is_no_python_is_a_syntax_error(data: bytes) -> None:
    with pytest.raises(SyntaxError):
        Program(Source("x.py", data))


@pytest.mark.parametrize(
    "deep", ["+".join(["'a'"] * 2000), "f" + "(f" * 80 + ")" * 80, "a" + ".b" * 500, "a" + "[0]" * 500]
)
def test_what_is_nested_deeply_is_passed_over(deep: str) -> None:
    text = f"import torch\nname = {deep}\nfor f in range(3):\n    loss.backward()\n    torch.load(name)\n"
    found = program(f"{text}    if {deep}:\n        torch.save({deep}, name)\n")
    assert found.is_job and not found.handles_signal("TERM")
    (save,) = found.checkpoints.in_training
    assert save.target is not None and found.path_parts(save.target).times == []
    assert found.checkpoints.is_renamed(save) is False and found.checkpoints.is_of_the_best(save) is False


def test_a_name_that_is_set_from_itself_comes_to_an_end() -> None:
    found = program("import torch\nout = out + '/a'\na = b\nb = a\ntorch.save(a, out + b)\n")
    assert found.saves[0].target is not None and found.path_parts(found.saves[0].target).nodes


NAMES = st.sampled_from(["model", "optimizer", "torch.save", "x.backward", "os.replace", "open", "f", "signal.signal"])
EXPRESSIONS = st.recursive(
    NAMES | st.sampled_from(["1", "'a.pt'", "f'{f}.pt'", "{}", "{'a': model}"]),
    lambda inner: st.builds(lambda f, a: f"{f}({', '.join(a)})", NAMES, st.lists(inner, max_size=3)),
    max_leaves=6,
)
STATEMENTS = st.builds(
    lambda head, body: "\n".join([head, *(f"    {line}" for line in body)]),
    st.sampled_from(
        ["for f in range(3):", "def f(model, x=1):", "class f:", "while f:", "try:\n    f()\nexcept Exception:"]
    ),
    st.lists(
        st.builds(lambda target, value: f"{target} = {value}", NAMES.filter(lambda n: n != "f"), EXPRESSIONS),
        min_size=1,
    ),
)


@settings(max_examples=60)
@given(st.lists(STATEMENTS | EXPRESSIONS, max_size=6))
def test_every_question_has_an_answer_for_any_program(lines: list[str]) -> None:
    found = program("import os, signal, torch\n" + "\n".join(lines) + "\n")
    assert found.loads_anything in (True, False) and found.handles_signal("TERM") in (True, False, None)
    assert found.is_job in (True, False)
    for save in found.saves:
        assert save.holds and found.checkpoints.is_of_the_best(save) in (True, False)
        assert found.span(save.call).line <= found.source.line_count
        if save.target is not None:
            assert found.path_parts(save.target).is_literal in (True, False)
