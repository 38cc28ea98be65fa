"""Reads a world from a prompt that describes its actions: Mystery Blocksworld and every other renamed world."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from evals.graders.plan.strips import Fact, Schema, place
from evals.graders.plan.worlds import World, by_name

_PARTS = ("needs", "adds", "deletes")
_RULE = re.compile(
    r"^[ \t]{0,20}(?:"
    r"to perform (?P<needs>\S{1,60})(?: action)?, the following (?:facts )?needs? to be true"
    r"|once (?P<adds>\S{1,60})(?: action)? is performed,? the following (?:facts )?will be true"
    r"|once (?P<deletes>\S{1,60})(?: action)? is performed,? the following (?:facts )?will be false"
    r"):(?P<facts>.*)$",
    re.MULTILINE,
)
_NUMBERED = re.compile(r"object_([0-9]{1,3})")
_AND = re.compile(r",|\band\b")


def read_world(intro: str) -> World | None:
    """The world that `intro` describes by what each action needs, makes true and makes false; None = it does not.

    Two ways to name an action's objects are known: `object` and `other object` (`Object Craves other object`), and
    `object_0`, `object_1`, ... (`next object_0 object_2`). The case of letters does not matter.
    """
    rules: dict[str, dict[str, tuple[Fact, ...]]] = {}
    for found in _RULE.finditer(intro.lower()):
        part = next(part for part in _PARTS if found[part])
        rules.setdefault(found[part], {})[part] = tuple(_facts(found["facts"]))
    if not rules or any(len(parts) != len(_PARTS) for parts in rules.values()):
        return None
    return World(
        schemas=by_name(*(_schema(name, **parts) for name, parts in rules.items())),
        fact=_stated,
        verbs={(name,): (name,) for name in rules},
        fillers=frozenset({"object", "other", "from", "on", "to", "with", "the"}),
        alias=lambda name: name.replace("object_", "o") if name.startswith("object_") else None,
    )


def _schema(name: str, needs: tuple[Fact, ...], adds: tuple[Fact, ...], deletes: tuple[Fact, ...]) -> Schema:
    places = {each for fact in (*needs, *adds, *deletes) for each in fact[1:]}
    return Schema(name, len(places), needs, adds, deletes)


def _facts(text: str) -> Iterator[Fact]:
    """The facts of a rule, parted by commas, the last one also by `and`."""
    for part in _AND.split(text):
        if fact := _fact(part.strip(" ."), _parameters):
            yield fact


def _stated(text: str) -> Fact | None:
    return _fact(text, _names)


def _fact(text: str, objects: Callable[[list[str]], Iterator[tuple[str, bool]]]) -> Fact | None:
    """One word that is the predicate, and objects around it."""
    words = list(objects(text.split()))
    predicates = [word for word, is_object in words if not is_object]
    return (predicates[0], *(word for word, is_object in words if is_object)) if len(predicates) == 1 else None


def _parameters(words: list[str]) -> Iterator[tuple[str, bool]]:
    """Words of a rule, its objects as a schema's places."""
    for index, word in enumerate(words):
        if numbered := _NUMBERED.fullmatch(word):
            yield place(int(numbered[1])), True
        elif word == "object":
            yield place(int(words[index - 1 : index] == ["other"])), True
        elif word != "other":
            yield word, False


def _names(words: list[str]) -> Iterator[tuple[str, bool]]:
    """Words of a sentence, `object b` as the object `b`, `object_1` as itself."""
    for index, word in enumerate(words):
        if _NUMBERED.fullmatch(word):
            yield word, True
        elif word != "object":
            yield word, words[index - 1 : index] == ["object"]
