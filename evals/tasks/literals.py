"""Python values that are written as text, read without running any of it."""

from __future__ import annotations

import ast
import warnings
from typing import Any, TypeGuard

MAX_LENGTH = 20_000
"""Characters of a text that is read as a value."""
MAX_DEPTH = 60
"""Values within values."""

_NODES = (
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Subscript, ast.Slice, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub, ast.Mult),
)
_MAKERS = frozenset(("set", "frozenset", "dict", "list", "tuple", "range", "str", "bytes"))


def read_value(text: str) -> Any:
    """The value of a literal, or of the right side of `call == literal`.

    Raises:
        ValueError: it is none, longer than `MAX_LENGTH`, or nested deeper than `MAX_DEPTH`.
    """
    tree = _expression(text)
    return ast.literal_eval(tree.comparators[-1] if _is_equation(tree) else tree)


def read_arguments(text: str, function: str, known: frozenset[str] = frozenset()) -> str:
    """The arguments of a call, `f(1, b=[2])`, `f(1, b=[2]) == 3` or `1, b=[2]`, as Python writes them in a call.

    Allowed are literals, their sums, differences, products and slices, `''.join(...)`, the makers of plain values
    (`set()`, `range(3)`, ...), and the names `known`: nothing that could reach for anything else when it is run.

    Raises:
        ValueError: it is something else, longer than `MAX_LENGTH`, or nested deeper than `MAX_DEPTH`.
    """
    text = text.strip()
    call = _expression(text if text.startswith(f"{function}(") else f"{function}({text})")
    call = call.left if _is_equation(call) else call
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != function:
        raise ValueError(f"no arguments of {function}")
    parts = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not all(keyword.arg for keyword in call.keywords) or not all(_plain(part, known) for part in parts):
        raise ValueError(f"arguments of {function} that are no plain values")
    words = [*map(ast.unparse, call.args), *(f"{word.arg}={ast.unparse(word.value)}" for word in call.keywords)]
    return ", ".join(words)


def canonical_value(value: Any) -> str:
    """A text that equal values share, and only they: `1`, `1.0` and `True` are equal, and so are sets in any order."""
    if isinstance(value, dict):
        pairs = sorted((canonical_value(key), canonical_value(one)) for key, one in value.items())
        return "{" + ", ".join(f"{key}: {one}" for key, one in pairs) + "}"
    if isinstance(value, (set, frozenset)):
        return "set(" + ", ".join(sorted(map(canonical_value, value))) + ")"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(canonical_value, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return repr(value)


def _expression(text: str) -> ast.expr:
    """The syntax tree of one expression.

    Raises:
        ValueError: it is none, or too large.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a value of more than {MAX_LENGTH:,} characters")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its escapes
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, MemoryError, RecursionError) as error:
            raise ValueError("no Python expression") from error
    if _depth(tree) > MAX_DEPTH:
        raise ValueError(f"a value of more than {MAX_DEPTH} levels")
    return tree


def _is_equation(tree: ast.expr) -> TypeGuard[ast.Compare]:
    return isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq)


def _depth(tree: ast.expr) -> int:
    """Levels of a tree; counted level by level, since a deep one must not exhaust the stack."""
    level: list[ast.AST] = [tree]
    depth = 0
    while level and depth <= MAX_DEPTH:
        level = [child for node in level for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        depth += 1
    return depth


def _plain(tree: ast.expr, known: frozenset[str]) -> bool:
    """Whether an expression is made of what `read_arguments` allows."""
    return all(_allowed(node, known) for node in ast.walk(tree))


def _allowed(node: ast.AST, known: frozenset[str]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is not ...
    if isinstance(node, ast.Name):
        return node.id in known or node.id in _MAKERS
    if isinstance(node, ast.Call):
        maker = isinstance(node.func, ast.Name) and node.func.id in _MAKERS
        return not node.keywords and (maker or isinstance(node.func, ast.Attribute))
    if isinstance(node, ast.Attribute):
        return node.attr == "join" and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, _NODES)
