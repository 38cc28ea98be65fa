"""What an episode carries: its item, its replicate, its noise and its bill."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trinity.types import NOTHING, Bill, Completion, Item, Replicate, Spend, Task, Usage

_UNIT = float(2**53)


@dataclass(slots=True)
class Context:
    """One episode's surroundings. Noise is a function of (seed, task, item, replicate, turn, id) and nothing else.

    So two methods or candidates meet the same noise at the same place, adding an agent does not move the others'
    noise, and the order in which coroutines end changes nothing. `seed` is the seed of the replicate's phase.
    `order` is the episode's place among those of the run so far: where a budget runs short, earlier ones go first.

    Rounds of an episode (see `Task.reply`) share one bill and one numbering of turns: methods count each round's turns
    from 0, `turn` puts them behind those of earlier rounds. `at_cap` says that the episode's own cap forbade a call.
    """

    task: Task
    item: Item
    replicate: Replicate
    seed: int
    order: int = 0
    billed_to: Bill | None = None
    at_cap: bool = False
    _first_turn: int = 0
    _turns: int = 0
    _samples: Counter[bytes] = field(default_factory=Counter)
    _calls: list[Completion | Spend] = field(default_factory=list)

    @property
    def bill(self) -> Bill:
        """What calls are billed to: the phase, unless another bill was named."""
        return self.billed_to or self.replicate.phase

    def next_round(self, task: Task) -> None:
        """Turns count from behind all so far; `task` opens with what was said in them."""
        self.task, self._first_turn = task, self._turns

    def turn(self, number: int) -> int:
        """Where turn `number` of this round stands in the episode; both count from 0."""
        place = self._first_turn + number
        self._turns = max(self._turns, place + 1)
        return place

    def next_sample(self, request: str) -> int:
        """0, 1, 2 ... among the equal requests of this episode; `request` is what they have in common."""
        key = hashlib.blake2b(request.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        number = self._samples[key]
        self._samples[key] += 1
        return number

    def reserve(self, worst: Spend = NOTHING) -> int:
        """A place in the bill, taken when a call starts, so that the order of ends does not matter.

        Until the call is answered it counts as `worst`.
        """
        self._calls.append(worst)
        return len(self._calls) - 1

    def enter(self, place: int, completion: Completion) -> None:
        """Put an answered call into its reserved place."""
        self._calls[place] = completion

    @property
    def calls(self) -> list[Completion]:
        """Answered calls in the order in which they started."""
        return [call for call in self._calls if isinstance(call, Completion)]

    def spend(self) -> Spend:
        """Logical spend so far: answered calls at their cost, open ones at their worst."""
        total = NOTHING
        for call in self._calls:
            if isinstance(call, Completion):
                total = total.plus(Spend(call.cost_usd, call.usage.weighted_tokens, 1))
            else:
                total = total.plus(call)
        return total

    def usage(self) -> Usage:
        """Logical usage: every call of the episode, cached or not."""
        return sum((call.usage for call in self.calls), Usage())

    def uniform(self, turn: int, label: str) -> float:
        """A number in (0, 1) that belongs to this turn of the round and label (an agent or role id)."""
        phase, index = self.replicate
        where = (self.item.task, self.item.item_id, phase, str(index), str(self.turn(turn)))
        place = "\x1f".join((str(self.seed), *where, label))
        bits = int.from_bytes(hashlib.blake2b(place.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        return ((bits >> 11) + 0.5) / _UNIT

    def gumbel(self, turn: int, labels: Sequence[str]) -> NDArray[np.float64]:
        """Standard Gumbel noise, one number per label."""
        return np.array([-math.log(-math.log(self.uniform(turn, label))) for label in labels])
