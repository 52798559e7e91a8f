"""In which order imports begin, and which of them come before the program does anything else."""

from lastgood.core.imports import Imported
from lastgood.launch.import_order import ImportOrder, import_order

MODULES = [
    # As their imports end: what is needed comes before what needs it.
    ("math", ""),
    ("numpy.linalg", "/site/numpy/linalg.py"),
    ("numpy", "/site/numpy/__init__.py"),
    ("torch.nn", "/site/torch/nn.py"),
    ("torch", "/site/torch/__init__.py"),
    ("wandb", "/site/wandb.py"),
    ("model.layers", "/mine/model/layers.py"),
    ("model", "/mine/model/__init__.py"),
]


def order(**files: str) -> ImportOrder:
    """`train`, `model` and `layers` are the program's files."""
    paths = {"train": "/mine/train.py", "model": "/mine/model/__init__.py", "layers": "/mine/model/layers.py"}
    sources = {paths[name]: source.encode() for name, source in files.items()}

    def read(file: str) -> bytes:
        if file not in sources:
            raise FileNotFoundError(file)
        return sources[file]

    imported = Imported(1, "/mine/train.py", "", [], "/lib", {}, MODULES)
    return import_order(imported, lambda file: file.startswith("/mine/"), read)


def test_imports_begin_as_the_script_has_them_and_the_rest_follows_as_it_ended() -> None:
    found = order(train="import torch.nn as nn\nimport math\n")
    assert found.first == ["torch", "torch.nn", "math"]
    assert found.later == ["numpy.linalg", "numpy", "wandb"]


def test_the_programs_own_modules_are_followed_to_what_they_import_and_left_out() -> None:
    found = order(
        train="from model import Net\nimport wandb\n",
        model="'''Docstring.'''\nfrom .layers import Layer\nimport numpy\n",
        layers="from torch import nn\nfrom . import nothing\n",
    )
    assert found.first == ["torch", "torch.nn", "numpy", "wandb"]


def test_what_is_imported_after_the_program_has_acted_comes_later() -> None:
    for act in (
        "os.environ['A'] = '1'",
        "random.seed(0)",
        "for i in range(3):\n    seed(i)",
        "X = make()",
        "if make():\n    pass",
        "with make():\n    pass",
        "x.y = 1",
        "del x",
        "assert make()",
    ):
        found = order(train=f"import math\n{act}\nimport torch\n")
        assert found.first == ["math"], act
        assert found.later[0] == "torch", act


def test_definitions_and_usual_lines_between_imports_are_no_acts() -> None:
    for line in (
        '"""Docstring."""',
        "X: int = 3",
        "log = logging.getLogger(__name__)",
        "T = TypeVar('T')",
        "SIZES = [1, 2 * 3, math.pi]",
        "class A(torch.nn.Module):\n    x = field()\n    @torch.no_grad()\n    def f(self): seed(0)",
        "def f():\n    seed(0)",
        "if TYPE_CHECKING:\n    import wandb",
        "try:\n    import math\nexcept ImportError:\n    math = None",
        "pass",
    ):
        assert order(train=f"{line}\nimport torch\n").first[-1] == "torch", line


def test_an_act_of_an_own_module_counts_for_all_that_follows() -> None:
    assert order(train="import model\nimport torch\n", model="import math\nseed(0)\n").first == ["math"]


def test_imports_within_functions_are_not_taken_for_imports_at_the_start() -> None:
    assert order(train="import math\ndef f():\n    import torch\n").first == ["math"]


def test_a_file_that_cannot_be_read_or_parsed_may_have_done_anything() -> None:
    assert order(train="import math\nimport model\nimport torch\n").first == ["math"]
    assert order(train="import math\nimport model\nimport torch\n", model="this is no Python").first == ["math"]
    assert order().first == []
    assert order().later == [name for name, _ in MODULES if not name.startswith("model")]


def test_nothing_is_named_twice_and_nothing_is_forgotten() -> None:
    found = order(
        train="import torch\nimport torch.nn\nimport torch\nif 1:\n    import numpy.linalg\nelse:\n    import numpy\n"
    )
    assert sorted([*found.first, *found.later]) == sorted(name for name, _ in MODULES if not name.startswith("model"))
