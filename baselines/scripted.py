"""A scripted orchestration study whose truth is known: items of known difficulty, models of known log-odds.

A model answers item i rightly with log-odds `ability + slope * z_i + u_i + v_im`, z the standardised difficulty, u and
v normal effects of the item and of the item in this model. A workflow that ends in a step of its own (a refined answer,
a selection, a judgement) is right with its method's log-odds added to that, whatever the earlier answers were: exactly
the model that the study fits (arXiv 2608.00685, M1; with `exceptions`, M3). So its analysis has to find what is put in.
Refining always goes on once, so that its answer is a draw of its own: what it does to the models when methods return
one another's answers, this study cannot show (docs/baselines.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

from baselines.backbones import PerBackbone
from baselines.best_of_n import BestOfN
from baselines.components import load
from baselines.debate import Debate
from baselines.self_refine import SelfRefine
from trinity.canonical import sha256
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import ScriptedTransport, reply_to
from trinity.testing.skill import SkillTask
from trinity.types import Item, Split

_QUESTION = re.compile(r"\[study (?P<item>\S+) z (?P<z>-?[0-9.]+) right (?P<right>[0-9]+)\]")
_CANDIDATE = re.compile(r"^Candidate ([0-9]+):\n(?:\|.*\n?)*?\| Answer: ([0-9]+)", re.MULTILINE)
_REFINED = "Mended."
_STEPS: Mapping[str, type[PerBackbone]] = {
    "feedback": SelfRefine,
    "refine": SelfRefine,
    "selector": BestOfN,
    "debate": Debate,
    "judge": Debate,
}
_METHODS = {"refine": "self_refine", "selector": "best_of_n", "judge": "debate"}


class StudyTask(SkillTask):
    """Items whose difficulties are normal quantiles in a shuffled order."""

    grader = "study/1"

    def items(self, split: Split) -> Iterator[Item]:
        """The items of a split."""
        size = self.sizes[split]
        places = sorted(range(size), key=lambda number: sha256(f"{self.name}/{split}/{number}"))
        for number, place in enumerate(places):
            z = NormalDist().inv_cdf((place + 0.5) / size)
            name, right = f"{self.name}-{split}-{number}", str(1000 + number)
            prompt = f"[study {name} z {z:.4f} right {right}] Which number is it? End with a line `Answer: <number>`."
            yield Item(name, self.name, prompt, right, self.name, round(z, 4), "constructed")

    def key(self, item: Item, text: str) -> str | None:
        """The number after the last `Answer:`."""
        found = re.findall(r"Answer: ([0-9]+)", text)
        return str(found[-1]) if found else None


def _patterns() -> dict[str, re.Pattern[str]]:
    """Kind of step to what its prompt looks like: the shipped text with anything at its placeholders."""
    patterns = {}
    for kind, contender in _STEPS.items():
        shipped = load(contender.name, contender.parts)
        text = shipped.fill(kind, **dict.fromkeys(contender.parts[kind], "\0"))
        patterns[kind] = re.compile(re.escape(text).replace("\0", ".*"), re.DOTALL)
    return patterns


@dataclass(frozen=True)
class StudyScript:
    """Answers of models with known log-odds; which step a request is, the shipped prompts tell.

    Attributes:
        abilities: model to its log-odds on an item of mean difficulty.
        slope: log-odds per standard deviation of difficulty.
        effects: method (task_only, self_refine, best_of_n, debate) to what it adds to chain of thought.
        exceptions: model to method to what it adds on this model besides.
        item_sd: standard deviation of the items' effects.
        item_model_sd: standard deviation of the effects of an item in a model.
    """

    abilities: Mapping[str, float]
    slope: float = -1.0
    effects: Mapping[str, float] = field(default_factory=dict)
    exceptions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    item_sd: float = 0.5
    item_model_sd: float = 0.5
    _patterns: Mapping[str, re.Pattern[str]] = field(default_factory=_patterns, init=False, repr=False)

    def __call__(self, request: Request) -> Reply:
        """The step's text: an answer, a feedback or a selection."""
        text = request.messages[-1]["content"]
        found = _QUESTION.search(text)
        if found is None:
            return reply_to(request, "I do not know.")
        kind = next((kind for kind, pattern in self._patterns.items() if pattern.fullmatch(text)), "generation")
        if kind == "feedback":
            needed = "no" if _REFINED in text else "yes"
            return reply_to(request, f"Look at it again.\nIs further refinement needed: {needed}")
        if kind == "selector":
            return reply_to(request, self._selected(request, found, text))
        method = _METHODS.get(kind) or ("cot" if request.messages[0]["role"] == "system" else "task_only")
        right = _draw(request.hash) < _chance(self.log_odds(request.model, method, found["item"], float(found["z"])))
        lead = f"{_REFINED}\n" if kind == "refine" else ""
        return reply_to(request, f"{lead}Answer: {found['right'] if right else _wrong(request.hash)}")

    def log_odds(self, model: str, method: str, item: str, z: float) -> float:
        """Of a right answer that `method` gives on `model` to an item of difficulty `z`."""
        added = self.effects.get(method, 0.0) + self.exceptions.get(model, {}).get(method, 0.0)
        own = self.item_sd * _normal(item) + self.item_model_sd * _normal(f"{item}/{model}")
        return self.abilities[model] + self.slope * z + own + added

    def _selected(self, request: Request, found: re.Match[str], text: str) -> str:
        """A right candidate as often as makes `best_of_n` as good as it has to be.

        Among n draws of chance p all are right with p^n and one is with 1 - (1 - p)^n; in between a right one is taken
        with the share that gives the wanted chance, so that effects between these two can be put in.
        """
        listed = _CANDIDATE.findall(text)
        right = [number for number, answer in listed if answer == found["right"]]
        wrong = [number for number, answer in listed if answer != found["right"]]
        item, z = found["item"], float(found["z"])
        p = _chance(self.log_odds(request.model, "cot", item, z))
        wanted = _chance(self.log_odds(request.model, "best_of_n", item, z))
        every, some = p ** len(listed), 1 - (1 - p) ** len(listed)
        taken = _draw(request.hash) < (wanted - every) / max(some - every, 1e-12)
        pick = (right or wrong) if taken else (wrong or right)
        return f"Selected candidate: {pick[0] if pick else 1}"


def _chance(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def _draw(text: str) -> float:
    """A number in (0, 1) that belongs to `text`."""
    return (int(sha256(text)[:13], 16) + 0.5) / 16**13


def _normal(text: str) -> float:
    return NormalDist().inv_cdf(_draw(text))


def _wrong(text: str) -> str:
    """A number that is nobody's answer, seldom the same twice."""
    return str(int(sha256(text)[13:20], 16) + 10**6)


def study(
    abilities: Mapping[str, float],
    slope: float = -1.0,
    effects: Mapping[str, float] | None = None,
    exceptions: Mapping[str, Mapping[str, float]] | None = None,
    item_sd: float = 0.5,
    item_model_sd: float = 0.5,
) -> ScriptedTransport:
    """A transport of a `StudyScript`, for a config."""
    script = StudyScript(abilities, slope, effects or {}, exceptions or {}, item_sd, item_model_sd)
    return ScriptedTransport(script, endpoint_id="scripted:study")
