"""Parses Python without a word about its style."""

from __future__ import annotations

import ast
import warnings


def parse(source: str) -> ast.Module:
    """The syntax tree.

    Raises:
        SyntaxError: it is no Python, or too deeply nested.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its escapes and comparisons
        try:
            return ast.parse(source)
        except (ValueError, MemoryError, RecursionError) as error:
            raise SyntaxError(str(error)) from error
