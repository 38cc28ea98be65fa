"""Whether a request is stored, and else what the nearest stored one has that it has not, told line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from trinity.canonical import canonical_json, digest
from trinity.errors import ConfigError, LedgerError
from trinity.llm.store import SCHEMA
from trinity.runs.calls import Answer, CallTable
from trinity.runs.files import read_json
from trinity.runs.ledger import Ledger
from trinity.runs.manifest import read_manifest
from trinity.runs.nearest import Difference, differences, edges, nearest
from trinity.runs.sqlite import open_database

DEFAULT_STORE = Path("outputs/store.sqlite")
FEWEST_DIGITS = 4
ABSENT = "(none)"
AROUND, MOST = 40, 160
"""Characters of a text that are shown: before and after a difference, and of the difference itself."""


class Sources(NamedTuple):
    """What is searched: a run's ledger, the store's calls, or both; the paths are for the eye."""

    ledger: Ledger | None
    run: Path | None
    calls: CallTable | None
    store: Path

    @classmethod
    def open(cls, run: Path | None, store: Path | None, stack: ExitStack) -> Sources:
        """Open for reading what there is; closed with `stack`.

        Raises:
            LedgerError: a named file is missing or damaged, or there is neither run nor store.
        """
        ledger = None
        if run is not None:
            ledger = stack.enter_context(Ledger.open(run / "ledger.sqlite", read_only=True))
        path = store or _store_of(run)
        if store is None and ledger is not None and not path.exists():
            return cls(ledger, run, None, path)
        database = open_database(path, SCHEMA, "read")
        stack.callback(database.close)
        return cls(ledger, run, CallTable(database), path)

    def tables(self) -> Iterator[CallTable]:
        """The tables of calls, the run's first."""
        if self.ledger is not None:
            yield self.ledger.calls
        if self.calls is not None:
            yield self.calls


class Question(NamedTuple):
    """A request that is looked for, and what is stored under its hash; `request` is None where nobody has kept it."""

    request_hash: str
    request: Mapping[str, Any] | None
    sources: Sources
    own: Answer | None
    shared: Answer | None

    @classmethod
    def of(cls, text: str, sources: Sources) -> Question:
        """The request that `text` names: a JSON file, or the beginning of a hash.

        Raises:
            ConfigError: it is neither.
            LedgerError: nobody knows it, or what is known is damaged.
        """
        request: Mapping[str, Any] | None
        if Path(text).is_file():
            request = read_request(Path(text))
            request_hash = digest(request)
        else:
            request_hash = full_hash(text, sources)
            request = next(filter(None, (calls.request(request_hash) for calls in sources.tables())), None)
        own = sources.ledger.calls.get(request_hash) if sources.ledger is not None else None
        shared = sources.calls.get(request_hash) if sources.calls is not None else None
        return cls(request_hash, request, sources, own, shared)

    @property
    def call_id(self) -> str:
        """The first 16 digits."""
        return self.request_hash[:16]

    @property
    def is_stored(self) -> bool:
        """Whether the run or the store has an answer."""
        return self.own is not None or self.shared is not None

    def lines(self) -> Iterator[str]:
        """What there is to say, line by line.

        Raises:
            LedgerError: it is not stored and the request itself is not known.
        """
        yield from self._places()
        if not self.is_stored:
            yield from self._failures()
            if self.request is None:
                raise LedgerError(f"call {self.call_id}: its request was not kept; give it as a JSON file")
            yield from _nearest(self.request, self.sources)

    def _places(self) -> Iterator[str]:
        sources = self.sources
        if self.own is not None:
            yield f"call {self.call_id} is in the ledger of {sources.run}: {_bought(self.own, sources)}"
        if self.shared is not None:
            yield f"call {self.call_id} is in {sources.store}: {_bought(self.shared, sources)}"
        elif sources.calls is not None:
            yield f"call {self.call_id} is not in {sources.store}"
        else:
            yield f"there is no store at {sources.store}"

    def _failures(self) -> Iterator[str]:
        ledger, run = self.sources.ledger, self.sources.run
        if ledger is None:
            return
        kinds = Counter(shown(attempt.kind) for attempt in ledger.attempts(self.request_hash))
        if kinds:
            yield f"{run} asked and failed: " + ", ".join(f"{kind} x{count}" for kind, count in kinds.items())
        if self.request_hash in ledger.misses():
            yield f"{run} wanted it offline"


def full_hash(prefix: str, sources: Sources) -> str:
    """The only request hash that starts with `prefix` and is known to run or store.

    Raises:
        ConfigError: those are no digits of a hash.
        LedgerError: there is none, or several.
    """
    digits = prefix.lower()
    if not FEWEST_DIGITS <= len(digits) <= 64 or set(digits) - set("0123456789abcdef"):  # noqa: PLR2004 - of SHA-256
        raise ConfigError(
            f"{prefix!a} is neither a file nor a call id ({FEWEST_DIGITS} to 64 hex digits, the first of its hash)"
        )
    known = {found for calls in sources.tables() for found in calls.request_hashes(digits)}
    if sources.ledger is not None:
        known |= {attempt.request_hash for attempt in sources.ledger.attempts(digits)}
    found = sorted(known)
    if len(found) > 1:
        raise LedgerError(f"several requests start with {digits}: {found[0]}, {found[1]} ...; give more digits")
    if not found:
        where = " and ".join(map(str, filter(None, (sources.run, sources.calls and sources.store))))
        raise LedgerError(f"no request that starts with {digits} is known to {where}; give it as a JSON file")
    return found[0]


def read_request(path: Path) -> dict[str, Any]:
    """A request from a JSON file.

    Raises:
        LedgerError: the file holds none.
    """
    request = read_json(path)
    try:
        canonical_json(request)
    except ValueError as error:
        raise LedgerError(f"{path} holds a number that JSON does not know: {error}") from error
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list) or not all(map(_is_message, messages)) or not _is_placed(request):
        raise LedgerError(
            f"{path} holds no request: an object with endpoint_id, model, messages (a list of role and content), "
            "sampling, extra_body, replicate ([phase, index] or null) and sample"
        )
    return dict(request)


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict) and value.keys() == {"role", "content"} and all(type(v) is str for v in value.values())
    )


def _is_placed(request: Mapping[str, Any]) -> bool:
    replicate = request.get("replicate")
    return replicate is None or (isinstance(replicate, list) and len(replicate) == 2)  # noqa: PLR2004 - phase, index


def _store_of(run: Path | None) -> Path:
    if run is None:
        return DEFAULT_STORE
    store = read_manifest(run / "manifest.json")["recipe"].get("store", DEFAULT_STORE)
    return Path(store["path"] if isinstance(store, Mapping) else store)


def _bought(answer: Answer, sources: Sources) -> str:
    ours = sources.ledger is not None and answer.buyer == sources.ledger.uid
    who = "this run" if ours else f"the run with uid {shown(answer.buyer)}" if answer.buyer else "nobody knows whom"
    tokens = "usage unknown" if answer.usage is None else f"{answer.usage.total_tokens} tokens"
    return f"bought by {who} in attempt {answer.attempts}, {len(answer.text)} characters, {tokens}"


def _nearest(asked: Mapping[str, Any], sources: Sources) -> Iterator[str]:
    """The nearest stored request and how it differs."""
    *_, calls = sources.tables()
    found = nearest(calls, asked)
    answer, stored = (calls.get(found), calls.request(found)) if found else (None, None)
    if answer is None or stored is None:
        yield "nothing is stored there that could be near"
        return
    yield f"the nearest stored one is call {answer.call_id}, {_bought(answer, sources)}; it differs in"
    for difference in differences(asked, stored):
        yield from described(difference)


def described(difference: Difference) -> Iterator[str]:
    """A difference for the terminal: one line, or for long texts the place where they part."""
    name, asked, stored = difference
    if asked is None or stored is None or max(len(asked), len(stored)) <= AROUND:
        texts = [ABSENT if text is None else shown(_cut(text)) for text in (asked, stored)]
        yield f"  {shown(name)}: asked {texts[0]} | stored {texts[1]}"
        return
    begin, end = edges(asked, stored)
    yield f"  {shown(name)}: from character {begin} on"
    yield f"    asked  {_excerpt(asked, begin, end)}"
    yield f"    stored {_excerpt(stored, begin, end)}"


def _excerpt(text: str, begin: int, end: int) -> str:
    """What stands between a common beginning and a common end, marked, with a little of both."""
    stop = len(text) - end
    before, after = text[max(0, begin - AROUND) : begin], text[stop : stop + AROUND]
    left, right = "..." if begin > AROUND else "", "..." if end > AROUND else ""
    return f"{left}{shown(before)}[{shown(_cut(text[begin:stop]))}]{shown(after)}{right}"


def _cut(text: str) -> str:
    """A text without its middle where it is long."""
    if len(text) <= MOST:
        return text
    return f"{text[: MOST // 2]} ... {len(text) - MOST} characters ... {text[-(MOST // 2) :]}"


def shown(text: str) -> str:
    """A text that cannot do anything to a terminal: whatever is not printable is escaped."""
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )
