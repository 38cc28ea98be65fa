"""The words and shapes that cross module borders; everything else imports them from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypedDict, get_args, runtime_checkable

if TYPE_CHECKING:
    from trinity.context import Context

Role = Literal["thinker", "worker", "verifier"]
ROLES: tuple[Role, ...] = ("thinker", "worker", "verifier")

Phase = Literal["train", "val", "reeval", "test"]
Bill = Literal[Phase, "grading"]
"""What a call is billed to: the phase of its episode, or the grading of an answer, which is no method's cost."""
GRADING: Bill = "grading"
BILLS: tuple[Bill, ...] = get_args(Bill)
"""A ledger keeps a bill as its place here; the phases come first, so a phase has its own number."""
Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

Status = Literal["correct", "wrong", "no_answer", "truncated", "refused", "error", "over_budget"]
UNGRADED: frozenset[Status] = frozenset({"error", "over_budget"})
"""Episodes that were never graded: left out of accuracy, asked again on resume."""

FinishReason = Literal["stop", "length", "context", "content_filter"]
"""`length`: the output cap was hit. `context`: the prompt did not fit. `content_filter`: the provider refused."""

CUT_SHORT: Mapping[FinishReason, Status] = {
    "length": "truncated",
    "context": "truncated",
    "content_filter": "refused",
}
"""What an episode is whose answer ended for such a reason."""

StoreMode = Literal["use", "refresh", "offline"]
"""What stored answers are to a run: all that is asked for, none of other runs', or all that there will be."""

PoolKind = Literal["live", "recorded", "simulated", "scripted"]
DifficultyKind = Literal["human", "irt", "constructed"]
Redistribute = Literal["yes", "ids-only", "never"]

CostAxis = Literal["usd", "gflop", "weighted_tokens"]
"""What a run compares costs by."""

OUTPUT_WEIGHT = 4
"""One output token weighs as much as four input tokens, about the ratio of their prices."""


class Message(TypedDict):
    """One chat message in the OpenAI form."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Item:
    """One question. `meta` holds what only its own task understands (options, hidden tests, ...)."""

    item_id: str
    task: str
    prompt: str
    target: str
    domain: str
    difficulty: float | None = None
    difficulty_kind: DifficultyKind | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


class Replicate(NamedTuple):
    """The `index`-th repetition within a phase; phases never share one."""

    phase: Phase
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call or a sum of calls.

    `output_tokens` are the visible ones only, `reasoning_tokens` the hidden ones; `cached_tokens` are a part of
    `input_tokens`. `estimated` says that the provider reported none and a tokenizer counted.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False

    @property
    def weighted_tokens(self) -> int:
        """Input + 4 x (output + reasoning)."""
        return self.input_tokens + OUTPUT_WEIGHT * (self.output_tokens + self.reasoning_tokens)

    @property
    def total_tokens(self) -> int:
        """Every token that went through the model."""
        return self.input_tokens + self.output_tokens + self.reasoning_tokens

    def __add__(self, other: Usage) -> Usage:
        """Sum of both; estimated when either is."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens; `source` names the table and its date.

    `cached_usd` is the price of cached input tokens; None: they are billed as any input.
    """

    input_usd: float
    output_usd: float
    source: str
    cached_usd: float | None = None


class Spend(NamedTuple):
    """What attempts cost or may cost; `usd` None = a price is unknown, never zero."""

    usd: float | None = 0.0
    weighted_tokens: int = 0
    calls: int = 0

    def plus(self, other: Spend) -> Spend:
        """Both together; USD unknown where either is."""
        known = self.usd is not None and other.usd is not None
        usd = (self.usd or 0.0) + (other.usd or 0.0) if known else None
        return Spend(usd, self.weighted_tokens + other.weighted_tokens, self.calls + other.calls)


NOTHING = Spend()
"""No call was made."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One entry of the pool: a model at one setting. One model at two settings is two agents.

    `endpoint` names the pool's endpoint that serves it; `sampling` and `extra_body` go on the wire as they are;
    `style` is the text of its worker prompt (empty: none). `active_params` (count) gives GFLOP, `price` gives USD;
    None means unknown, never zero. A `deterministic` agent answers equal requests equally.
    """

    name: str
    endpoint: str
    model: str
    sampling: Mapping[str, Any]
    style: str = ""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    price: Price | None = None
    active_params: float | None = None
    deterministic: bool = False
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answered call. `call_id` is the first 16 hex digits of the request hash; `cost_usd` None = price unknown.

    `latency_s` is the answered attempt's alone, from sending to answer: neither failed ones nor any wait count.
    """

    text: str
    reasoning: str
    finish_reason: FinishReason
    usage: Usage
    cost_usd: float | None
    gflop: float | None
    latency_s: float
    call_id: str


class Client(Protocol):
    """How a method asks a model; every completion is also entered in `context.calls`."""

    async def complete(self, agent: Agent, messages: Sequence[Message], context: Context) -> Completion:
        """Answer of `agent`.

        Raises:
            CallError: the call failed after its retries; the episode is an `error`.
            EndpointError: the run cannot go on (credentials, model name, nobody listens).
        """
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of an episode: who was asked in which role and what came back."""

    agent: str
    role: Role
    text: str
    call_id: str
    finish_reason: FinishReason
    verdict: Literal["accept", "revise"] | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """What a method did on one item. `answer` is the text to grade (None: there is none).

    `finish_reason` is that of the call that produced `answer`; `capped` says that the episode ended at its own cap.
    Usage is not here: it is summed from `context.calls`, so that no method can forget a call.

    `replies` are the answers of the rounds so far, `answer` the last of them, where a task says something back (see
    `Task.reply`); the run fills them in, a method leaves them alone.
    """

    answer: str | None
    finish_reason: FinishReason = "stop"
    turns: tuple[Turn, ...] = ()
    capped: bool = False
    encoder_tokens: int = 0
    replies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grade:
    """A score in [0, 1] and the answer as the grader read it (None: it found none)."""

    score: float
    answer: str | None


class Judge(Protocol):
    """A model that a grader asks: the agent that the run's configuration names. Its calls are billed to `grading`."""

    async def ask(self, messages: Sequence[Message]) -> Completion:
        """Its answer; equal messages within one grading are as many samples.

        Raises:
            GraderError: the call failed after its retries.
            TrinityError: anything else stops the run and must be let through.
        """
        ...


@runtime_checkable
class Prepared(Protocol):
    """What a task offers besides whose grading needs something of the machine, such as a sandbox."""

    async def ready(self) -> None:
        """Make sure that answers can be graded, before anything is asked; again is free.

        Raises:
            ConfigError: they cannot be here; says what to install or to set.
        """
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest keeps of it, as JSON values; known after `ready`, and once items were loaded.

        `left_out` in it, if there is any, counts rows that became no items: split there -> reason -> number.
        """
        ...

    async def close(self) -> None:
        """Let go of what is held; again is free."""
        ...


class Task(Protocol):
    """A benchmark: items per split, prompts, and the grader.

    Attributes:
        name: as in item ids and tables.
        licence: of the items.
        redistribute: what may leave the run folder.
        threshold: score from which an episode is `correct`.
        chance: expected score of a guess, 0 where guessing is hopeless.
        comparable: True when `key` makes answers comparable, so that they can be voted on.
        grader: name and version, for the manifest.

    Further attributes may be there: `rounds`, how often an episode is answered at most (1; see `reply`), `reply_bytes`,
    the most UTF-8 bytes of a reply, 64 a message included (4096), `judged`, whether `grade` asks its judge (False), and
    `judge_calls`, how often it does at most for one episode (1). A task may be `Prepared` besides.
    """

    name: str
    licence: str
    redistribute: Redistribute
    threshold: float
    chance: float
    comparable: bool
    grader: str

    def items(self, split: Split) -> Iterator[Item]:
        """Items of a split, in a fixed order.

        Raises:
            DataError: the data is missing or broken; names file and line.
        """
        ...

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the data that `items` reads."""
        ...

    def open(self, item: Item) -> list[Message]:
        """The first messages: the question and how to answer it."""
        ...

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """What the task says back (two-turn and interactive benchmarks); None = done.

        Asked after every round with `episode.replies`, the answers so far. Where it says something, the method solves
        again, its opening being the one before with the answer and these messages behind it.
        """
        ...

    def key(self, item: Item, text: str) -> str | None:
        """The answer in `text` in a form that equals exactly when two answers mean the same; None = no answer."""
        ...

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """Score of the episode; None where no judge is configured, which a `judged` task never sees.

        Where a task has several rounds, an episode that ended early (its own cap, an empty answer) has fewer `replies`.

        Raises:
            GraderError: the grader itself failed; never a score of 0.
        """
        ...


class Method(Protocol):
    """Anything that answers items: a single agent, a coordinator, a baseline.

    Attributes:
        name: its row in tables.
        variant: tells rows of one method apart (an agent, `sampled`, `argmax`, ...).
        backbone: the model behind every call, or the pool's name where several answer.
        replicates: how many test replicates it needs at most (1 where nothing is random); None = as many as set.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - above

    @property
    def variant(self) -> str: ...  # noqa: D102 - above

    @property
    def backbone(self) -> str: ...  # noqa: D102 - above

    @property
    def replicates(self) -> int | None: ...  # noqa: D102 - above

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """One episode on `item`."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """One row: what one method did on one item in one replicate. Fields are the columns of `records.parquet`."""

    run_id: str
    experiment: str
    method: str
    variant: str
    backbone: str
    pool: str
    pool_kind: PoolKind
    task: str
    split: Split
    item_id: str
    domain: str
    difficulty: float | None
    difficulty_kind: DifficultyKind | None
    replicate: Replicate
    seed: int
    status: Status
    score: float | None
    raw_score: float | None
    capped: bool
    answer: str | None
    n_turns: int
    n_calls: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cached_tokens: int
    encoder_tokens: int
    usage_estimated: bool
    weighted_tokens: int
    cost_usd: float | None
    gflop: float | None
    latency_s: float
    call_ids: tuple[str, ...]
