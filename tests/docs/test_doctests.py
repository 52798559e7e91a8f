"""Every example in a docstring is true."""

import doctest
import importlib
import pkgutil

import pytest

import lastgood

OPTIONAL = {"lastgood.frameworks.torch_adapter", "lastgood.frameworks.torch_export", "lastgood.frameworks.torch_ranks"}
MODULES = [m.name for m in pkgutil.walk_packages(lastgood.__path__, "lastgood.") if not m.name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name in OPTIONAL:
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(name) for name in MODULES if ".core." in name]
    assert sum(bool(test.examples) for module in modules for test in finder.find(module)) > 20
