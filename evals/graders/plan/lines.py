"""Reads the actions that one line of a model's plan names, as sentences, in PDDL or as calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from evals.graders.plan.problem import Posed
from evals.graders.plan.strips import Action

_TOKEN = re.compile(r"\w+(?:-\w+)*|[^\w\s]")
_GROUP = re.compile(r"\(([^()]{0,300})\)")
_CALL = re.compile(r"([\w-]{1,60}(?:[ ][\w-]{1,60})?)[ ]?\(([^()]{0,300})\)")
_ARROW = re.compile(r"->|=>|[→⇒]")
_LEAD = frozenset({"perform", "execute", "apply", "action", "then", "and", "next", "finally", "first", "now", ",", ":"})
"""What may stand before the verb."""
_MAX_LEAD = 4
_FURTHER = frozenset({",", ".", ";", "and", "then"})
"""Behind these a further action may follow."""
_REMARK = frozenset({":", "!", "(", ")", "{", "}", "–", "—", "-", "so", "because", "since", "as", "which", "while"})
"""Behind these stands an explanation."""
_TOOL = frozenset({"use", "using", "with"})


class Read(NamedTuple):
    """What a line says: its actions; `broken` where it begins an action that cannot be read."""

    actions: tuple[Action, ...] = ()
    broken: bool = False


_BROKEN = Read(broken=True)


class _Objects(NamedTuple):
    """Objects of a sentence (None: a word is neither object nor filler), what ended it, and the tokens behind."""

    names: list[str] | None
    stop: str
    rest: Sequence[str]


class LineReader:
    """Reads lines in the language of one problem.

    A sentence is an action's verb, the names of its objects in their order, and words that mean nothing (`the`,
    `from on top of`). Any other word before the next punctuation mark makes it broken, and so does another number of
    objects, so that `unstack the red block from the table` is not taken for something else. `it` is the object of the
    action before. Objects that the problem does not have are left to the execution in PDDL and calls, where it fails.
    """

    def __init__(self, posed: Posed) -> None:
        """Note the problem's objects and their short names, which only PDDL and calls may use."""
        self._world = posed.world
        self._names = posed.problem.objects
        aliases = {self._world.alias(name): name for name in self._names}
        self._short = {alias: name for alias, name in aliases.items() if alias and alias not in self._names}

    def read(self, line: str) -> Read:
        """The actions of a line in lower case, without numbering and marks of emphasis."""
        if line.startswith("("):
            return _together(self._formal(group) for group in _GROUP.findall(line))
        if (call := _CALL.match(line)) and call[1] in self._world.lexicon and self._only_objects(call[2]):
            return _together(self._formal(f"{verb} {inside}") for verb, inside in _CALL.findall(line))
        tokens = _TOKEN.findall(_ARROW.sub(";", _GROUP.sub(" ", line)))
        return _together(self._sentences(self._apart(tokens)))

    def _only_objects(self, inside: str) -> bool:
        """Whether parentheses behind a verb hold its objects, unlike those of `unstack (now) the red block`."""
        words = self._apart(inside.replace(",", " ").split())
        return all(word in self._names or word in self._short or self._means_nothing(word) for word in words)

    def _apart(self, words: Iterable[str]) -> list[str]:
        """Words with `red_block` as `red block`."""
        parts = ((word, word.split("_")) for word in words)
        known = self._names | self._world.fillers
        return [each for word, many in parts for each in (many if known.issuperset(many) else [word])]

    def _formal(self, text: str) -> Read | None:
        """`unstack red blue`, or a sentence in parentheses; None = a remark."""
        verb, words = self._verb(self._apart(text.replace(",", " ").split()))
        if not verb:
            return None
        names = [self._short.get(word, word) for word in words if word in self._short or not self._means_nothing(word)]
        return self._action(verb, names)

    def _means_nothing(self, word: str) -> bool:
        return word in self._world.fillers and word not in self._names

    def _sentences(self, tokens: Sequence[str]) -> Iterator[Read | None]:
        """Actions one after another, up to a remark."""
        it: str | None = None
        stop = ","
        while tokens and stop in _FURTHER:
            lead = _lead(tokens)
            tools, tokens = self._tool(tokens[lead:])
            verb, tokens = self._verb(tokens)
            if not verb:
                yield _BROKEN if tools or stop == "and" else None
                return
            if tokens[:1] == [":"]:  # `Feast: perform feast d c`
                continue
            found = self._objects(tokens, tools, it)
            yield _BROKEN if found.names is None else self._action(verb, found.names)
            it, stop, tokens = found.names[0] if found.names else None, found.stop, found.rest

    def _tool(self, tokens: Sequence[str]) -> tuple[list[str], Sequence[str]]:
        """The hoist of `use hoist0 to lift ...`, which comes first in the action."""
        if tokens[:1] and tokens[0] in _TOOL and tokens[1:2] and tokens[1] in self._names:
            return [tokens[1]], tokens[2 + (tokens[2:3] in (["to"], [","])) :]
        return [], tokens

    def _verb(self, tokens: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
        for length in (2, 1):
            if names := self._world.lexicon.get(" ".join(tokens[:length])):
                return names, tokens[length:]
        return (), tokens

    def _objects(self, tokens: Sequence[str], tools: list[str], it: str | None) -> _Objects:
        names, first = list[str](), list(tools)
        for index, word in enumerate(tokens):
            before, behind = tokens[index - 1 : index], tokens[index + 1 :]
            if word in self._names or (word == "it" and it):
                name = word if word in self._names else str(it)
                (first if before and before[0] in _TOOL else names).append(name)
            elif word in _FURTHER or word in _REMARK or self._purpose(word, behind):
                return _Objects(first + names, word, behind)
            elif not self._means_nothing(word) and word not in _TOOL:
                return _Objects(None, "", ())
        return _Objects(first + names, "", ())

    def _purpose(self, word: str, behind: Sequence[str]) -> bool:
        """Whether `to` begins a purpose (`to free it`), not a place."""
        return word == "to" and bool(behind) and behind[0] not in self._names and not self._means_nothing(behind[0])

    def _action(self, verb: tuple[str, ...], names: Sequence[str]) -> Read:
        """The action that the verb means for so many objects of such kinds."""
        fitting = [name for name in verb if self._world.schemas[name].arity == len(names)]
        if not fitting:
            return _BROKEN
        return Read(((max(fitting, key=lambda name: self._kin(name, names)), *names),))

    def _kin(self, action: str, names: Sequence[str]) -> int:
        """How many objects are of the kind that the action needs: `load` is into a truck or into an airplane."""
        kinds = {fact for name in names for fact in self._world.kinds(name)}
        needs = [fact for fact in self._world.schemas[action].needs if len(fact) == 2]  # noqa: PLR2004 - of one object
        return sum((predicate, names[int(where[1:])]) in kinds for predicate, where in needs)


def _together(parts: Iterable[Read | None]) -> Read:
    found = [part for part in parts if part]
    return Read(tuple(action for part in found for action in part.actions), any(part.broken for part in found))


def _lead(tokens: Sequence[str]) -> int:
    """How many words stand before the verb."""
    return next((index for index, token in enumerate(tokens[:_MAX_LEAD]) if token not in _LEAD), _MAX_LEAD)
