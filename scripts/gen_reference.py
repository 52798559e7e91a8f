#!/usr/bin/env python3
"""Writes the reference pages that are made from the code: command line, Python, exit codes, environment, rules.

python scripts/gen_reference.py            write docs/reference/{cli,python,exit-codes,environment}.md and docs/rules/
python scripts/gen_reference.py --check    exit 1 if one of them is not what the code says now
"""

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

import lastgood
from lastgood import testing
from lastgood.audit.formats import page
from lastgood.audit.rules import all_rules
from lastgood.cli.answers import ANSWERS
from lastgood.cli.main import COMMANDS, build_parser
from lastgood.core.errors import exit_code_table
from lastgood.core.fingerprint_items import VARIABLES
from lastgood.core.layout import ENVIRONMENT, FOREIGN_ENVIRONMENT

DOCS = Path(__file__).resolve().parent.parent / "docs"
REFERENCE = DOCS / "reference"
RULES = DOCS / "rules"
NOTICE = "<!-- Made from the code by scripts/gen_reference.py; `make reference` writes it anew. -->\n"


def pages() -> dict[str, str]:
    """Each generated page by its file name."""
    return {
        "cli.md": cli_page(),
        "python.md": python_page(),
        "exit-codes.md": exit_codes_page(),
        "environment.md": environment_page(),
    }


def rule_pages() -> dict[str, str]:
    """The list of the audit's rules, and a page for each."""
    rules = all_rules()
    return {"index.md": page.index(rules, NOTICE), **{f"{rule.code}.md": page.markdown(rule, NOTICE) for rule in rules}}


def python_page() -> str:
    lines = [
        "# Python",
        "",
        NOTICE,
        "The public names of `lastgood`. Everything else may move between releases.",
    ]
    for name in sorted(set(lastgood.__all__) - {"__version__"}):
        value = getattr(lastgood, name)
        lines += ["", f"## lastgood.{name}", "", *signature(name, value), *docstring(value)]
        if inspect.isclass(value) and not issubclass(value, Exception):
            for method, function in vars(value).items():
                if not method.startswith("_") and inspect.isfunction(function):
                    lines += ["", f"### {name}.{method}", "", *signature(method, function), *docstring(function)]
    for name in testing.__all__:
        lines += [
            "",
            f"## lastgood.testing.{name}",
            "",
            *signature(name, getattr(testing, name)),
            *docstring(getattr(testing, name)),
        ]
    lines += ["", "## Errors", "", "All are subclasses of `LastgoodError`, in `lastgood.core.errors`:", ""]
    lines += ["| error | exit code | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {code} | {meaning} |" for code, name, meaning in exit_code_table() if name.endswith("Error")
    ]
    return "\n".join(lines) + "\n"


def signature(name: str, value: object) -> list[str]:
    """How it is called, one argument a line where one line would be long."""
    called = inspect.signature(value)
    parameters = [p for p in called.parameters.values() if p.name != "self"]
    text = f"{name}{called.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"
    if len(text) > 90:
        words = [str(p) for p in parameters]
        keywords = [i for i, p in enumerate(parameters) if p.kind is inspect.Parameter.KEYWORD_ONLY]
        if keywords:
            words.insert(keywords[0], "*")
        text = name + "(\n    " + ",\n    ".join(words) + "\n)"
    return ["```text", text, "```", ""]


def docstring(value: object) -> list[str]:
    """The promise, as text that keeps its layout."""
    return ["```text", inspect.getdoc(value) or "", "```"]


def cli_page() -> str:
    lines = [
        "# Command line",
        "",
        NOTICE,
        "Standard output is data, standard error is talk. Every command answers `--help`, and its",
        "exit code is one of [the documented ones](exit-codes.md).",
        "",
        "| command | what it does |",
        "|---|---|",
        *(f"| [`lastgood {name}`](#lastgood-{name}) | {line} |" for name, line in COMMANDS.items()),
        "",
        "`lastgood --version` prints the version.",
    ]
    for name, line in COMMANDS.items():
        parser = command_parser(name)
        lines += [
            "",
            f"## lastgood {name}",
            "",
            f"{line[0].upper()}{line[1:]}.",
            "",
            "```text",
            usage(name, parser),
            "```",
            "",
        ]
        lines += [f"- {described(action)}" for action in actions(parser)]
        if parser.epilog:
            lines += ["", "```text", parser.epilog.strip("\n"), "```"]
        for call, answer in ANSWERS.items():
            if call.split(" ")[0] == name:
                lines += ["", f"### lastgood {call} --json", "", "| member | type | meaning |", "|---|---|---|"]
                lines += [f"| `{place}` | {kind} | {meaning} |" for place, kind, meaning in members(answer)]
    return "\n".join(lines) + "\n"


def command_parser(name: str) -> argparse.ArgumentParser:
    for action in build_parser(name)._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices[name]
    raise LookupError(name)


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Positional ones first, without --help and hidden ones."""
    shown = [a for a in parser._actions if a.help != argparse.SUPPRESS and not isinstance(a, argparse._HelpAction)]
    return sorted(shown, key=lambda a: bool(a.option_strings))


def usage(name: str, parser: argparse.ArgumentParser) -> str:
    if parser.usage:
        return parser.usage
    words = [f"[{_spelled(a)}]" if not a.required else _spelled(a) for a in actions(parser) if a.option_strings]
    words += [_spelled(a) for a in actions(parser) if not a.option_strings]
    lines, indent = [f"lastgood {name}"], " " * len(f"lastgood {name}")
    for word in words:
        if len(lines[-1]) + 1 + len(word) > 80:
            lines.append(indent)
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _spelled(action: argparse.Action) -> str:
    if action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        named = action.metavar or action.dest.upper()
        value = named if isinstance(named, str) else " ".join(named)
    if action.option_strings:
        return action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {value}"
    return {"?": f"[{value}]", "*": f"[{value} ...]"}.get(str(action.nargs), value)


def described(action: argparse.Action) -> str:
    names = [_spelled(action)]
    if action.option_strings:
        names = [*action.option_strings[:-1], *names]
    required = " (required)" if action.option_strings and action.required else ""
    return f"`{', '.join(names)}`: {(action.help or '').replace('%%', '%')}{required}"


def members(kind: type) -> Iterator[tuple[str, str, str]]:
    """(place, type, meaning) of every member of an answer, those of inner objects after their own."""
    yield from _members(msgspec.inspect.type_info(kind), "")


def _members(info: msgspec.inspect.Type, prefix: str) -> Iterator[tuple[str, str, str]]:
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        inner, meaning = field.type, ""
        if isinstance(inner, msgspec.inspect.Metadata):
            meaning = (inner.extra_json_schema or {}).get("description", "")
            inner = inner.type
        yield prefix + field.encode_name, _kind(inner), meaning
        place = f"{prefix}{field.encode_name}"
        if isinstance(inner, msgspec.inspect.ListType):
            place, inner = f"{place}[]", inner.item_type
        for one in inner.types if isinstance(inner, msgspec.inspect.UnionType) else [inner]:
            if isinstance(one, msgspec.inspect.StructType):
                yield from _members(one, f"{place}.")


def _kind(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.ListType(item_type=item):
            return f"list of {_kind(item)}s"
        case msgspec.inspect.DictType(value_type=value):
            return "object" if isinstance(value, msgspec.inspect.AnyType) else f"object of {_kind(value)}s"
        case msgspec.inspect.StructType():
            return "object"
        case msgspec.inspect.LiteralType(values=values):
            return " or ".join(f'`"{value}"`' for value in values)
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(map(_kind, types))
        case msgspec.inspect.Metadata(type=inner):
            return _kind(inner)
    names = {
        "IntType": "integer",
        "FloatType": "number",
        "StrType": "text",
        "BoolType": "true or false",
        "NoneType": "null",
    }
    return names[type(info).__name__]


def exit_codes_page() -> str:
    rows = [f"| {code} | {name} | {meaning} |" for code, name, meaning in exit_code_table()]
    return "\n".join(
        [
            "# Exit codes",
            "",
            NOTICE,
            "One table for all commands and for a program that uses the library. Names that end in `Error`",
            "are the exceptions of `lastgood` with that code.",
            "",
            "| code | name | meaning |",
            "|---|---|---|",
            *rows,
            "",
            "- **75 is the only code that a scheduler should requeue** (in Slurm: `RequeueExit=75`).",
            "- `lastgood run` passes the command's own code on where nobody retries; a command that was ended by",
            "  signal N gives 128 + N, as a shell says it.",
            "- 64 to 78 follow BSD's `sysexits.h` where it has the meaning. All but the shell's own 130 are below 128,",
            "  because Slurm's accounting shows larger ones less 128.",
            "",
        ]
    )


def environment_page() -> str:
    def table(variables: dict[str, str]) -> list[str]:
        return [
            "| variable | meaning |",
            "|---|---|",
            *(f"| `{name}` | {meaning} |" for name, meaning in variables.items()),
        ]

    return "\n".join(
        [
            "# Environment variables",
            "",
            NOTICE,
            "`lastgood run` sets the first table's for the command that it starts, except for",
            "`LASTGOOD_STATE_DIR` and `LASTGOOD_MTTI`, which are yours to set. A script that needs them may read them;",
            "a job script that sets `LASTGOOD_JOB` need not name the job anywhere else.",
            "",
            *table(ENVIRONMENT),
            "",
            "## Variables of others",
            "",
            *table(FOREIGN_ENVIRONMENT),
            "",
            "## Variables that can change numbers",
            "",
            "They are kept in manifests where they are set, and compared on resume; `lastgood fingerprint` prints them.",
            "",
            *table({name: f"{item.effect.value}: {item.why}" for name, item in VARIABLES.items()}),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not current")
    is_check = parser.parse_args().check
    stale = []
    made = {REFERENCE / name: text for name, text in pages().items()}
    made |= {RULES / name: text for name, text in rule_pages().items()}
    for place, text in made.items():
        if place.exists() and place.read_text(encoding="utf-8") == text:
            continue
        stale.append(place.name)
        if not is_check:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    for place in sorted(set(RULES.glob("*.md")) - set(made)):
        stale.append(place.name)
        if not is_check:
            place.unlink()
    if stale:
        print(f"{'not current' if is_check else 'written'}: {', '.join(stale)}", file=sys.stderr)
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
