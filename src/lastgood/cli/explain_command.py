"""`lastgood explain`: a rule of the audit in full, or the list of them."""

import argparse

EPILOG = """\
examples:
  lastgood explain
  lastgood explain LG101
  lastgood explain signals
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rules",
        metavar="RULE",
        nargs="*",
        help="a code (LG101), its begin (LG1), a name or a family; without any, all rules are listed",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.epilog = EPILOG


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.audit.formats.page import in_terminal, listing
    from lastgood.audit.needs import check_parsers
    from lastgood.audit.rules import all_rules
    from lastgood.audit.selection import select, words_of
    from lastgood.cli import output
    from lastgood.cli.audit_command import style

    check_parsers()
    words = words_of(parsed.rules)
    rules = select(all_rules(), words, [])
    if parsed.json:
        from lastgood.audit.formats.answers import ExplainAnswer
        from lastgood.audit.formats.json_answer import explained

        output.put_json(ExplainAnswer([explained(rule) for rule in rules]))
    elif len(rules) == 1 or any(
        rule.code == word.upper() or rule.name == word.lower() for rule in rules for word in words
    ):
        for i, rule in enumerate(rules):
            output.put("\n".join([*(["", ""] if i else []), *in_terminal(rule, style())]))
    else:
        output.put("\n".join(listing(rules, style())))
    return 0
