"""Changes the literals that tests expect: the same shape, another value."""

from __future__ import annotations

import ast
from random import Random
from typing import Any


def literal_value(node: ast.expr) -> tuple[Any] | None:
    """The value of a literal; None = it is none, or holds an ellipsis, of which there is no other."""
    if any(isinstance(part, ast.Constant) and part.value is ... for part in ast.walk(node)):
        return None
    try:
        return (ast.literal_eval(node),)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def another(node: ast.expr, margin: float, rng: Random) -> ast.expr:
    """A literal of the same shape and another value."""
    return ast.parse(repr(_changed(ast.literal_eval(node), margin, rng)), mode="eval").body


def _changed(value: Any, margin: float, rng: Random) -> Any:
    """Another value of the same type, or, of a container, with one part changed or added."""
    if isinstance(value, bool) or value is None:
        return value is not True
    if isinstance(value, int | float | complex):
        return _changed_number(value, margin, rng)
    if isinstance(value, str):
        return value + rng.choice("aeiou")
    return value + b"e" if isinstance(value, bytes) else _changed_container(value, margin, rng)


def _changed_number(value: Any, margin: float, rng: Random) -> Any:
    away = rng.randint(1, 9) + int(2 * margin)
    changed = value + away if isinstance(value, complex) or value >= 0 else value - away
    # A large float may have swallowed it.
    return changed if abs(changed - value) > margin else 2 * value


def _changed_container(value: Any, margin: float, rng: Random) -> Any:
    if isinstance(value, dict):
        return _changed_dict(value, margin, rng)
    if isinstance(value, set):
        return _changed_set(value, rng)
    items = list(value)
    if items:
        place = rng.randrange(len(items))
        items[place] = _changed(items[place], margin, rng)
    return type(value)(items or [rng.randint(1, 9)])


def _changed_dict(value: dict[Any, Any], margin: float, rng: Random) -> dict[Any, Any]:
    if not value:
        return {"id": rng.randint(1, 9)}
    key = rng.choice(list(value))
    return {**value, key: _changed(value[key], margin, rng)}


def _changed_set(value: set[Any], rng: Random) -> set[Any]:
    more = {_changed(item, 0, rng) for item in value} - value
    return {*value, rng.choice(sorted(more, key=repr))} if more else {rng.randint(1, 9)}
