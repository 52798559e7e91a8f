"""`lastgood fingerprint`: what of an environment can change numbers, and what differs between two."""

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastgood.cli.answers import FingerprintAnswer, FingerprintDiffAnswer
    from lastgood.cli.fingerprint_sources import Taken

EPILOG = """\
Without --diff: of this machine and environment, and after -- of an interpreter with NumPy and torch imported, or of a
GROMACS. With --diff: A and B are each a file that --json wrote, a checkpoint's directory, a job (its newest
attempt), an attempt (JOB:3), or `here`. Exit code 0 if nothing differs that can change numbers, 1 if something does.

examples:
  lastgood fingerprint
  lastgood fingerprint --json -- .venv/bin/python > a100.json
  lastgood fingerprint --diff runs/x:1 runs/x:4
  lastgood fingerprint --diff a100.json here
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lastgood fingerprint [--json] [-- PYTHON]\n       lastgood fingerprint [--json] --diff A B"
    parser.epilog = EPILOG
    add = parser.add_argument
    add("--diff", nargs=2, metavar=("A", "B"), help="what differs between two, and what that can do to the numbers")
    add("--json", action="store_true", help="print JSON instead of text")


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.fingerprint_sources import take_command, take_here
    from lastgood.core.errors import UsageError

    if parsed.diff is not None:
        if parsed.handed_on:
            raise UsageError("--diff compares two that are written down: leave `--` and what follows it out")
        return _diff(parsed)
    taken = take_command(parsed.handed_on, os.environ) if parsed.handed_on else take_here(os.environ)
    answer = _answer(taken)
    if parsed.json:
        output.put_json(answer)
        return 0
    output.put(output.table(["ITEM", "ANOTHER VALUE", "VALUE"], [[f.name, f.effect, f.value] for f in answer.facts]))
    if answer.note:
        output.note(answer.note)
    return 0


def _answer(taken: "Taken") -> "FingerprintAnswer":
    from lastgood.cli.answers import FingerprintAnswer, FingerprintFact
    from lastgood.core.fingerprint import EDITION
    from lastgood.core.fingerprint_items import groups, item

    places = {name: place for place, name in enumerate(name for _, members in groups() for name in members)}
    names = sorted(taken.facts.keys() - {EDITION}, key=lambda name: (places.get(name, len(places)), name))
    facts = [FingerprintFact(name, taken.facts[name], item(name).effect.value, item(name).why) for name in names]
    return FingerprintAnswer(taken.of, taken.facts.get(EDITION, ""), facts, taken.note)


def _diff(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.answers import FingerprintDiffAnswer, FingerprintDifference
    from lastgood.cli.fingerprint_sources import take
    from lastgood.core.errors import EXIT_FINDINGS
    from lastgood.core.fingerprint import compare, that_matter

    old, new = (take(name, os.environ) for name in parsed.diff)
    found = compare(old.facts, new.facts)
    answer = FingerprintDiffAnswer(
        old.of,
        new.of,
        bool(that_matter(found)),
        [FingerprintDifference(one.name, one.old, one.new, one.effect.value, one.why) for one in found],
    )
    if parsed.json:
        output.put_json(answer)
    else:
        output.put("\n".join(_text(answer)))
    return EXIT_FINDINGS if answer.may_differ else 0


def _text(answer: "FingerprintDiffAnswer") -> list[str]:
    from lastgood.cli import output

    lines = [f"A  {answer.old}", f"B  {answer.new}"]
    effect = ""
    for one in answer.differences:
        if one.effect != effect:
            effect = one.effect
            lines += ["", f"{'does not change numbers' if effect == 'does not' else effect}"]
        lines += output.wrap(f"  {one.name}: {one.old} -> {one.new}", indent="      ")
        lines += output.wrap(f"    {one.why}", indent="    ")
    if not answer.may_differ:
        lines += ["", "nothing differs that can change numbers"]
    return lines
