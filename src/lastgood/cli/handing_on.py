"""Commands that hand words on: what is not an option of ours is one of another program's."""

import argparse
from collections.abc import Sequence


def take_out(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(ours, others) of the words of a command line. The first, the command, and all from `--` on is ours.

    Between them, a word that is no option of `parser`, and no value of one, is for the other program.
    """
    options = parser._option_string_actions
    ours, others = list(words[:1]), list[str]()
    at = 1
    while at < len(words) and words[at] != "--":
        word = words[at]
        action = options.get(word.partition("=")[0] if word.startswith("--") else word)
        at += 1
        if action is None:
            others.append(word)
            continue
        ours.append(word)
        if action.nargs != 0 and "=" not in word and at < len(words) and words[at] != "--":
            ours.append(words[at])
            at += 1
    return [*ours, *words[at:]], others


def given(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> list[str]:
    """The options of `parser` that are not as they are by themselves, as words that say the same."""
    words: list[str] = []
    for action in parser._actions:
        value = getattr(parsed, action.dest, action.default)
        if not action.option_strings or value == action.default:
            continue
        option = action.option_strings[0]
        if action.nargs == 0:
            words.append(option)
        elif str(value).startswith("-"):
            words.append(f"{option}={value}")
        else:
            words += [option, str(value)]
    return words
