"""The Thinker/Worker/Verifier loop (TRINITY, arXiv 2512.04695, section 3) in the paper's dialect.

A turn k sees the transcript C = (Q, O_1 .. O_k-1); the first ACCEPT of a Verifier ends the episode, else turn K does.
The paper prints no prompts and no parsing rules; ours are the files in `prompts/` and the functions here:

* the answer is the text of the latest Worker turn that said anything;
* a verdict is the first word of the Verifier's own reply, ACCEPT or REVISE; anything else lets the episode go on;
* ACCEPT without an answer ends nothing, for there is nothing to return;
* a Thinker may name the next role in its text; the head, which reads the text, decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, Protocol

from trinity.context import Context
from trinity.errors import EpisodeCapError
from trinity.quoting import quote
from trinity.types import Agent, Client, Completion, Episode, FinishReason, Item, Message, Role, Turn


class Choice(NamedTuple):
    """What a policy decided: an index into the agents, a role, and the tokens its encoder read."""

    agent: int
    role: Role
    encoder_tokens: int


class Policy(Protocol):
    """Transcript -> a choice of agent and role. `name` tells its decisions apart in the ledger."""

    @property
    def name(self) -> str:
        """As in the ledger."""
        ...

    async def choose(self, chunks: tuple[str, ...], turn: int, context: Context) -> Choice:
        """The choice at `turn` (from 0) after the transcript `chunks` (question, then one chunk a turn)."""
        ...


@cache
def prompt(name: str) -> str:
    """Text of a file in `prompts/`, without trailing white space."""
    return resources.files("trinity.coordinator").joinpath("prompts", f"{name}.txt").read_text("utf-8").rstrip()


def read_verdict(text: str) -> Literal["accept", "revise"] | None:
    """The verdict that the first word of a Verifier's reply gives; None when it gives none."""
    word, joint, other = ([part.strip("*_#`\"'.,:;!()[]").upper() for part in text.split(maxsplit=3)] + [""] * 3)[:3]
    if joint in ("OR", "/") and other in ("ACCEPT", "REVISE"):  # the choice that it was given, said again
        return None
    return "accept" if word == "ACCEPT" else "revise" if word == "REVISE" else None


def turn_block(number: int, turn: Turn) -> str:
    """One turn as agents and encoder see it: a header line of ours, then the quoted text."""
    return f"\n\nTurn {number}, {turn.role} {turn.agent}:\n{quote(turn.text)}"


@dataclass(slots=True)
class Transcript:
    """Question and turns so far; `chunks` is what the encoder reads, a prefix of every later one."""

    opening: list[Message]
    turns: list[Turn] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the chunks with the question."""
        self.chunks = ["\n\n".join(message["content"] for message in self.opening)]

    def add(self, turn: Turn) -> None:
        """Append a turn."""
        self.turns.append(turn)
        self.chunks.append(turn_block(len(self.turns), turn))

    @property
    def candidate(self) -> Turn | None:
        """The latest Worker turn that said anything."""
        workers = [turn for turn in self.turns if turn.role == "worker" and turn.text.strip()]
        return workers[-1] if workers else None

    def ask(self, role: Role, agent: Agent) -> list[Message]:
        """Messages for `agent` in `role`. A Worker at the start gets exactly what the agent alone would get."""
        system = agent.style if role == "worker" else prompt(f"{role}_system")
        head: list[Message] = [{"role": "system", "content": system}] if system else []
        if role == "worker" and not self.turns:
            return [*head, *self.opening]
        notes = ["\n\n" + prompt("notes"), *self.chunks[1:]] if self.turns else []
        *earlier, last = self.opening
        content = "".join([last["content"], *notes, "\n\n", prompt(role)])
        return [*head, *earlier, {"role": last["role"], "content": content}]


def read_turn(agent: Agent, role: Role, completion: Completion) -> Turn:
    """A completion as a turn of the transcript."""
    verdict = read_verdict(completion.text) if role == "verifier" else None
    return Turn(agent.name, role, completion.text, completion.call_id, completion.finish_reason, verdict)


def alone(agent: Agent, opening: Sequence[Message]) -> list[Message]:
    """Messages for `agent` answering without a team."""
    return Transcript(list(opening)).ask("worker", agent)


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Method: a policy picks an agent and a role at each of at most `max_turns` turns (K)."""

    policy: Policy
    agents: Sequence[Agent]
    max_turns: int
    name: str = "coordinator"
    variant: str = ""
    backbone: str = ""
    replicates: int | None = None

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Play one episode; at its own cap it ends on its latest answer (raises what else `client.complete` raises)."""
        transcript = Transcript(context.task.open(item))
        encoder_tokens = 0
        for number in range(self.max_turns):
            choice = await self.policy.choose(tuple(transcript.chunks), number, context)
            encoder_tokens += choice.encoder_tokens
            agent = self.agents[choice.agent]
            try:
                completion = await client.complete(agent, transcript.ask(choice.role, agent), context)
            except EpisodeCapError:
                break
            transcript.add(read_turn(agent, choice.role, completion))
            if transcript.turns[-1].verdict == "accept" and transcript.candidate:
                return _close(transcript, encoder_tokens, capped=False)
        return _close(transcript, encoder_tokens, capped=True)


def _close(transcript: Transcript, encoder_tokens: int, *, capped: bool) -> Episode:
    answer = transcript.candidate
    reason: FinishReason = answer.finish_reason if answer else _why_silent(transcript)
    text = answer.text if answer else None
    return Episode(text, reason, tuple(transcript.turns), capped=capped, encoder_tokens=encoder_tokens)


def _why_silent(transcript: Transcript) -> FinishReason:
    """Finish reason of the last Worker turn when none said anything (a refusal, a prompt too long)."""
    reasons = [turn.finish_reason for turn in transcript.turns if turn.role == "worker"]
    return reasons[-1] if reasons else "stop"
