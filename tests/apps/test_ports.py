"""Each adapter has an answer to everything that the launcher asks: they are found by name, so that no types tell."""

import importlib

import pytest

from lastgood.apps.described import Described
from lastgood.apps.known import APPLICATIONS
from lastgood.launch.ports import Adapter


def assert_answers(adapter: type) -> None:
    asked = {name for name in vars(Adapter) if not name.startswith("_")}
    assert asked <= set(dir(adapter)), asked - set(dir(adapter))


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_adapter_answers_all_that_is_asked(name: str) -> None:
    module, _, made_by = APPLICATIONS[name].partition(":")
    assert_answers(getattr(importlib.import_module(module), made_by))


def test_a_description_answers_all_that_is_asked() -> None:
    assert_answers(Described)
