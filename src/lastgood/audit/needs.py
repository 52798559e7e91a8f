"""The libraries that an audit reads files with."""

from importlib.util import find_spec

from lastgood.core.errors import UsageError

_PARSERS = {"tree_sitter": "tree-sitter", "tree_sitter_bash": "tree-sitter-bash", "yaml": "PyYAML"}


def check_parsers() -> None:
    """Raises UsageError where one is missing."""
    missing = [name for module, name in _PARSERS.items() if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"audit needs {' and '.join(missing)}, which a plain install does not bring",
            remedy="pip install 'lastgood[audit]'",
        )
