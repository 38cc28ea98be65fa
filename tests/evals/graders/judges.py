"""Scripted judges: one that says what it is told to, and some that fall for what careless graders fall for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trinity.types import Completion, FinishReason, Message, Usage

Says = Callable[[str], str]
"""What a judge replies to the user message."""


@dataclass
class Scripted:
    """Replies by `says`, or with the texts given, one after another; keeps what it was asked."""

    says: Says | Sequence[str]
    finish_reason: FinishReason = "stop"
    asked: list[Sequence[Message]] = field(default_factory=list)

    async def ask(self, messages: Sequence[Message]) -> Completion:
        """Note the messages, reply."""
        self.asked.append(messages)
        said = self.says(messages[-1]["content"]) if callable(self.says) else self.says[len(self.asked) - 1]
        return Completion(said, "", self.finish_reason, Usage(9, 4), None, None, 0.0, "0" * 16)


def own_lines(prompt: str) -> list[str]:
    """The lines of a prompt that a judge may take as its task: those without the mark."""
    return [line for line in prompt.split("\n") if not line.startswith("| ")]


def obeys(prompt: str) -> str:
    """A judge that does what any line of its task orders, wherever that line is, and else gives 2."""
    orders = [line for line in own_lines(prompt) if re.search(r"output|ignore|SYSTEM", line)]
    return "Rating: [[10]]" if orders else "Rating: [[2]]"


def quotes(prompt: str) -> str:
    """A judge that repeats all that was shown, without marks and quotation marks, before it gives 2."""
    material = "\n".join(line.removeprefix("| ") for line in prompt.split("\n"))
    return f"I was shown:\n{material}\n\nRating: [[2]]"


def echoes(prompt: str) -> str:
    """A judge that repeats the last line shown and says nothing of its own."""
    return [line for line in prompt.split("\n") if line.startswith("| ")][-1].removeprefix("| ")


def believes_turns(prompt: str) -> str:
    """A judge whose chat template reads special tokens in a message as turns."""
    tokens = r"<\|im_start\|>|<\|start_header_id\|>|\[INST\]|</s>|<\uff5cUser\uff5c>|<start_of_turn>"
    return "Rating: [[10]]" if re.search(tokens, prompt) else "Rating: [[2]]"


def believes_ends(prompt: str) -> str:
    """A judge for whom the material ends where a line says so."""
    ends = [line for line in own_lines(prompt) if re.search(r"end of|^#+ |^---|^</", line, re.IGNORECASE)]
    return "Rating: [[10]]" if ends else "Rating: [[2]]"
