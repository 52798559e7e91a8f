"""Where the rules for Python programs must not speak, whatever else is in the program."""

import pytest

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Rule
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source

RULES = [rule for rule in all_rules() if rule.reads is Program]

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def finds(rule: Rule, text: str, path: str = "train.py") -> bool:
    return any(True for _ in rule.check(Program(Source(path, text.encode())), Context()))


@each_rule
def test_its_example_is_found_at_all(rule: Rule) -> None:
    assert finds(rule, rule.bad)


@each_rule
def test_a_program_that_uses_lastgood_is_left_alone(rule: Rule) -> None:
    assert not finds(rule, "import lastgood\n" + rule.bad)


@each_rule
@pytest.mark.parametrize("path", ["tests/train.py", "test_train.py", "project/train_test.py", "conftest.py"])
def test_tests_are_left_alone(rule: Rule, path: str) -> None:
    assert not finds(rule, rule.bad, path)


@each_rule
def test_notebooks_written_as_programs_are_left_alone(rule: Rule) -> None:
    assert not finds(rule, "# In[1]:\n" + rule.bad)


@each_rule
def test_modules_that_others_import_are_left_alone(rule: Rule) -> None:
    # The same, as the body of a function that nobody here calls.
    body = rule.bad.replace('if __name__ == "__main__":\n    main()\n', "")
    library = "def work():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert not finds(rule, library)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.code not in ("LG651", "LG656", "LG661")], ids=lambda rule: rule.code
)
def test_a_program_that_does_not_train_is_left_alone(rule: Rule) -> None:
    # Not so of a handler that saves, of a file that is written over itself, of a trainer that has the loop.
    assert not finds(rule, rule.bad.replace(".backward()", ".item()").replace("optimizer.step()", "pass"))


def test_inference_with_a_checkpoint_is_left_alone() -> None:
    text = (
        "import torch\nfrom project import Net, images\n\n"
        "model = Net()\n"
        'model.load_state_dict(torch.load("last.pt", weights_only=True)["model"])\n'
        "for image in images():\n    torch.save(model(image), image.name)\n"
    )
    assert [rule.code for rule in RULES if finds(rule, text)] == []
