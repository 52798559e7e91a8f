"""A Python program as rules see it."""

import ast

from lastgood.audit.source import Source


class Program:
    """Its syntax tree. Raises SyntaxError for what is no Python."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tree = ast.parse(source.data)

    @property
    def path(self) -> str:
        return self.source.path
