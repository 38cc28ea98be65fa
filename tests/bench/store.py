"""A store of a million calls: opening it, look-ups, bytes a call, buying, and the search for the nearest request.

`ROWS` in the environment sets another size. Look-ups are timed in slices, of which the best counts, so that a busy
moment of the machine is not taken for the store's time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

from trinity.context import Context
from trinity.llm.client import Client
from trinity.llm.pool import Pool
from trinity.llm.store import SCHEMA, Store
from trinity.llm.transports.base import Request, Template
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.runs.calls import Answer, CallTable, RequestRows, answer_row
from trinity.runs.ledger import Ledger
from trinity.runs.nearest import nearest
from trinity.runs.sqlite import open_database
from trinity.types import Agent, Item, Message, Replicate, Task, Usage

ROWS = int(os.environ.get("ROWS", "1000000"))
SLICES, LOOKUPS, HITS = 10, 5_000, 40_000
LOOK_S = 0.002
BOUGHT, IN_FLIGHT, BATCH = 10_000, 128, 20_000
MODELS, PER_QUESTION = 7, 8
QUESTION_CHARS, TRANSCRIPT_CHARS, TEXT_CHARS = 400, 300, 500
SYSTEM = "You are one of several models that work on a question together. Think step by step, then answer. " * 4
WORDS = ("red", "blue", "green", "seven", "eight", "nine", "ten", "apple", "pear", "plum", "train", "farm", "field")
SAMPLING = {"temperature": 0.7, "top_p": 0.95, "max_tokens": 1024}
TEMPLATES = [Template("https://api.example.com/v1", f"model-{number}", SAMPLING, {}) for number in range(MODELS)]
BUYER = "0123456789abcdef"


class Seconds(NamedTuple):
    """Seconds on the clock and of this thread's CPU."""

    clock: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        """Both as they stand."""
        return cls(time.perf_counter(), time.thread_time())

    def until_now(self, count: int) -> Seconds:
        """What each of `count` took since."""
        clock, cpu = Seconds.now()
        return Seconds((clock - self.clock) / count, (cpu - self.cpu) / count)


def make_messages(number: int, mark: str = "") -> list[Message]:
    """Messages of the `number`-th request: shared by all, shared by eight, its own."""
    return [
        Message(role="system", content=SYSTEM),
        Message(role="user", content=filler(f"question {number // PER_QUESTION}", QUESTION_CHARS)),
        Message(role="user", content=filler(f"transcript {number} {mark}", TRANSCRIPT_CHARS)),
    ]


def make_request(number: int, mark: str = "") -> Request:
    """The `number`-th request."""
    return placed(number, make_messages(number, mark))


def placed(number: int, messages: Sequence[Message]) -> Request:
    """A request as the client makes it from messages."""
    return TEMPLATES[number % MODELS].request(messages, Replicate("train", number % 16), lambda _: 0)


def make_answer(number: int, request: Request) -> Answer:
    """An answer of 500 characters."""
    text = filler(f"answer {number}", TEXT_CHARS)
    return Answer(request.hash, text, "", "stop", Usage(700, 120, 0, 512), 1.25, 1, BUYER)


def filler(head: str, length: int) -> str:
    """`head` and words of `length` characters, some of them not ASCII, as in real texts."""
    word = WORDS[len(head) % len(WORDS)]
    return (f"{head}\n" + f"{word} \u2192 " * (length // len(word)))[:length]


def fill(path: Path, rows: int) -> None:
    """Make a store of `rows` calls."""
    with closing(open_database(path, SCHEMA, "create", cache_mib=512)) as database:
        database.one("PRAGMA synchronous=OFF")
        calls = CallTable(database)
        for start in range(0, rows, BATCH):
            requests = [(number, make_request(number)) for number in range(start, min(start + BATCH, rows))]
            with database.transaction():
                calls.write_requests(RequestRows.of(request.hash, request.to_json()) for _, request in requests)
                calls.write_answers(answer_row(make_answer(number, request)) for number, request in requests)


def payload(rows: int) -> float:
    """Bytes of text that one call has on average, those of shared messages divided among their users."""
    question, own = filler("question 123456", QUESTION_CHARS), filler("transcript 123456 ", TRANSCRIPT_CHARS)
    answer = filler("answer 123456", TEXT_CHARS)
    return len(SYSTEM) / rows + len(question.encode()) / PER_QUESTION + len(own.encode()) + len(answer.encode())


async def look_up(store: Store, numbers: list[int]) -> Seconds:
    """Time of a look-up with the hash given."""
    hashes = [make_request(number).hash for number in numbers]
    start = Seconds.now()
    for request_hash in hashes:
        assert await store.get(request_hash) is not None
    return start.until_now(len(numbers))


async def hash_and_look_up(store: Store, numbers: list[int]) -> Seconds:
    """Time of a look-up from messages on: make the request, hash it, read, decode."""
    asked = [(number, make_messages(number)) for number in numbers]
    start = Seconds.now()
    for number, messages in asked:
        assert await store.get(placed(number, messages).hash) is not None
    return start.until_now(len(numbers))


async def buy(store: Store, mark: str, *, claim: bool) -> float:
    """Calls a second that are kept, so many at a time, each committed before its buyer goes on."""
    requests = [make_request(number, mark) for number in range(BOUGHT)]
    ready = [(request, make_answer(number, request)) for number, request in enumerate(requests)]

    async def buyer() -> None:
        while ready:
            request, answer = ready.pop()
            if claim:
                assert await store.claim(request.hash) is None
            await store.put(answer, request.to_json())

    start = time.perf_counter()
    await asyncio.gather(*(buyer() for _ in range(IN_FLIGHT)))
    return BOUGHT / (time.perf_counter() - start)


async def hits(path: Path, rows: int, *, noted: bool) -> tuple[Seconds, float]:
    """Time of `client.complete` where the store has the answer, in a fresh run with its own ledger; longest stall.

    The requests are those that the store was filled with; the stall is the longest time by which a
    coroutine that sleeps for 2 ms was woken too late. Without `noted` no ledger keeps a copy.
    """
    store, ledger = Store.open(path), Ledger.create(path.with_name("ledger.sqlite"))
    agents = [Agent(f"a{number}", "e", f"model-{number}", SAMPLING) for number in range(MODELS)]
    endpoint = ScriptedTransport(lambda _: RuntimeError("nobody is asked"), endpoint_id=TEMPLATES[0].endpoint_id)
    client = Client(Pool("bench", agents, {"e": endpoint}), store, ledger if noted else None)
    numbers = random.Random(1).sample(range(rows), min(rows, HITS))
    asked = [(agents[number % MODELS], make_messages(number), place(number)) for number in numbers]
    longest = 0.0

    async def ask() -> None:
        while asked:
            await client.complete(*asked.pop())

    async def watch() -> None:
        nonlocal longest
        while asked:
            last = time.perf_counter()
            await asyncio.sleep(LOOK_S)
            longest = max(longest, time.perf_counter() - last - LOOK_S)

    gc.freeze()  # as a run does when it starts: what was made before is not looked at again
    start = Seconds(time.perf_counter(), time.process_time())
    await asyncio.gather(watch(), *(ask() for _ in range(IN_FLIGHT)))
    spent = Seconds(time.perf_counter() - start.clock, time.process_time() - start.cpu)
    assert client.counts.reused == len(numbers)
    await client.close()
    ledger.close()
    store.close()
    return Seconds(spent.clock / len(numbers), spent.cpu / len(numbers)), longest


def place(number: int) -> Context:
    """The context in which the `number`-th request is made."""
    item = Item(str(number), "bench", "", "", "")
    return Context(cast("Task", None), item, Replicate("train", number % 16), 0)


async def measure(path: Path, rows: int) -> list[dict[str, object]]:
    """All that a store is asked."""
    start = time.perf_counter()
    store = Store.open(path, buyer=BUYER)
    opened = time.perf_counter() - start
    draw = random.Random(0)
    slices = [[draw.randrange(rows) for _ in range(LOOKUPS)] for _ in range(SLICES)]
    given = [await look_up(store, numbers) for numbers in slices]
    hashed = [await hash_and_look_up(store, numbers) for numbers in slices]
    found, stall = await hits(path, rows, noted=False)
    path.with_name("ledger.sqlite").unlink()
    copied, copied_stall = await hits(path, rows, noted=True)
    put = await buy(store, "put", claim=False)
    claimed = await buy(store, "claim", claim=True)
    store.close()
    return [
        line("open", opened, "s", "value < 1", ok=opened < 1),
        rate("look-up, hash given", given),
        rate("look-up, hash computed", hashed),
        line("client.complete, found", 1 / found.clock, "calls/s", "value >= 8000", ok=found.clock <= 1 / 8000)
        | {"cpu_us": round(1e6 * found.cpu, 1)},
        line("client.complete, longest stall", 1000 * stall, "ms", "value < 20", ok=stall < 0.02),
        line(
            "client.complete, found and copied",
            1 / copied.clock,
            "calls/s",
            "value >= 8000",
            ok=copied.clock <= 1 / 8000,
        )
        | {"cpu_us": round(1e6 * copied.cpu, 1)},
        line("client.complete, copied: stall", 1000 * copied_stall, "ms", "value < 20", ok=copied_stall < 0.02),
        line("put, 128 at a time", put, "calls/s", "value >= 1000", ok=put >= 1000),
        line("claim and put, 128 at a time", claimed, "calls/s", "value >= 1000", ok=claimed >= 1000),
    ]


def weigh(path: Path, rows: int) -> dict[str, object]:
    """Bytes of the file for each call."""
    size, text = path.stat().st_size / rows, payload(rows)
    return line("size", size, "bytes/call", f"value <= {text:.0f} of text + 500", ok=size <= text + 500)


def search(path: Path, rows: int) -> dict[str, object]:
    """The time to find the nearest of all requests, where every question begins like the one that is looked for."""
    asked = make_request(rows // 2).to_json()
    messages = [*asked["messages"][:2], {"role": "user", "content": asked["messages"][2]["content"].upper()}]
    with closing(open_database(path, SCHEMA, "read")) as database:
        start = time.perf_counter()
        assert nearest(CallTable(database), {**asked, "messages": messages}) is not None
        seconds = time.perf_counter() - start
    return line("explain, the nearest of all", seconds, "s", "value < 30", ok=seconds < 30)


def rate(what: str, slices: list[Seconds]) -> dict[str, object]:
    """Look-ups a second of the best slice, and the thread's CPU time of one."""
    value = 1 / min(slices).clock
    result = line(what, value, "calls/s", "value >= 20000", ok=value >= 20_000)
    return {**result, "cpu_us": round(1e6 * min(seconds.cpu for seconds in slices), 1)}


def line(what: str, value: float, unit: str, target: str, *, ok: bool) -> dict[str, object]:
    """One result."""
    shown = round(value, 3) if value < 10 else round(value)
    return {"bench": f"store: {what}", "rows": ROWS, "value": shown, "unit": unit, "target": target, "ok": ok}


def main() -> None:
    """Print the results as JSON lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        start = time.perf_counter()
        fill(path, ROWS)
        print(f"made {ROWS} calls in {time.perf_counter() - start:.0f} s")
        results = [weigh(path, ROWS), search(path, ROWS), *asyncio.run(measure(path, ROWS))]
        for result in results:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
