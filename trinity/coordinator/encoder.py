"""Encoders: a transcript -> the state that a head reads, computed anew only for what a turn added."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from trinity.canonical import canonical_json, digest, sha256
from trinity.coordinator import gguf
from trinity.coordinator.gguf import Dtype
from trinity.errors import ConfigError, WeightsError
from trinity.llm.weights import Weights, cache_dir
from trinity.naming import check_choice
from trinity.runs.files import file_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from transformers import DynamicCache

Readout = Literal["penultimate", "last"]
"""Token of the input whose state is read. `penultimate` is the paper's; `last` is its ablation (Table 2)."""

_FROM_END: dict[Readout, int] = {"penultimate": 2, "last": 1}
_MARK = "TRANSCRIPT-STANDS-HERE"
_TEMPLATE_OPTIONS = {"enable_thinking": False, "date_string": "01 Jan 2025"}


class State(NamedTuple):
    """What an encoder makes of a transcript.

    `vector` is float32 of shape (d,) and read-only; `tokens` is the length of the whole input, cached or not.
    """

    vector: NDArray[np.float32]
    tokens: int


@dataclass(slots=True)
class Counters:
    """`states` and `tokens` that were really computed; `hits`: requests that a known or running state answered."""

    states: int = 0
    tokens: int = 0
    hits: int = 0


class Encoder(Protocol):
    """Reads transcripts. `name` identifies everything that shapes a state, `d` is the length of its vector."""

    name: str
    d: int
    counters: Counters

    async def encode(self, chunks: tuple[str, ...]) -> State:
        """State of the transcript `chunks`: the question, then what each turn added."""
        ...

    def settings(self) -> dict[str, Any]:
        """What the manifest keeps (JSON-able)."""
        ...

    def close(self) -> None:
        """Let go of threads and weights."""
        ...


def router_prompt() -> str:
    """The dispatcher's system prompt, from `prompts/router.txt`."""
    return (files("trinity.coordinator") / "prompts" / "router.txt").read_text("utf-8").strip()


@dataclass(frozen=True, slots=True)
class Backbone:
    """A transformers base model (no LM head) with its tokenizer; `identity` names the weights exactly."""

    model: Any
    tokenizer: Any
    identity: str
    dtype: Dtype

    @classmethod
    def from_path(cls, path: Path, dtype: Dtype = "float32", conversions: Path | None = None) -> Backbone:
        """From a GGUF file or a folder that `save_pretrained` wrote.

        A GGUF file is converted once into the folder `conversions` (None: `encoders` beside the cached weights).

        Raises:
            WeightsError: nothing readable is there.
        """
        if path.is_dir():
            listing = {file.name: file_sha256(file) for file in sorted(path.iterdir()) if file.is_file()}
            return cls._load(str(path), f"folder:{digest(listing)[:16]}", dtype, local_files_only=True)
        folder = gguf.converted(path, conversions or _conversions(cache_dir()), dtype)
        identity = f"gguf:{gguf.source_sha256(folder)[:16]}"
        return cls._load(str(folder), identity, dtype, local_files_only=True)

    @classmethod
    def from_hub(cls, hub_id: str, revision: str | None = None, dtype: Dtype = "float32") -> Backbone:
        """From the Hugging Face hub; the identity holds the commit, also where `revision` is a branch.

        Raises:
            WeightsError: the hub, or its cache on this machine, has no such model.
        """
        loaded = cls._load(hub_id, hub_id, dtype, revision=revision or "main")
        commit = getattr(loaded.model.config, "_commit_hash", None) or revision or "main"
        return cls(loaded.model, loaded.tokenizer, f"hub:{hub_id}@{commit}", dtype)

    @classmethod
    def _load(cls, place: str, identity: str, dtype: Dtype, **options: Any) -> Backbone:
        import torch
        from transformers import AutoModel, AutoTokenizer

        try:
            with _quiet():
                model = AutoModel.from_pretrained(place, dtype=getattr(torch, dtype), **options)
                tokenizer = AutoTokenizer.from_pretrained(place, **options)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise WeightsError(f"{place}: transformers cannot load this model: {error}") from error
        return cls(model.eval(), tokenizer, identity, dtype)


class Framing:
    """How a transcript becomes tokens: template head | chunk | chunk | ... | template tail.

    The chat template is rendered once around a mark, as system prompt and user message, with the generation prompt and
    without thinking; a template that refuses or drops system messages gets the system prompt at the start of the
    user message. Each piece is tokenised on its own, so a transcript is a token prefix of every later one. Chunks are
    untrusted: control tokens spelled out in them are plain text.

    Longer inputs than `max_tokens` lose the oldest turns, whole, but never the newest; if question and newest turn
    are still too long, each keeps its beginning and its end (the question at least half of the room).

    Raises:
        ConfigError: no usable chat template, or `max_tokens` leaves no room for a transcript.
    """

    def __init__(self, tokenizer: Any, system_prompt: str, max_tokens: int, min_last: int = 2) -> None:
        head, tail = _render(tokenizer, system_prompt.strip())
        self._tokenizer = tokenizer
        self._head = self._ids(head)
        self._tail = self._ids(tail)
        self._min_last = min_last
        self._room = max_tokens - len(self._head) - len(self._tail)
        self._control = _control_tokens(tokenizer, head + tail)
        self._control_start = re.compile(f"(?=(?:{'|'.join(map(re.escape, self._control.values())) or '(?!)'}))")
        self.identity = sha256(canonical_json([head, tail]))
        if self._room < 1 or len(self._head) + len(self._tail) < min_last:
            raise ConfigError(
                f"encoder: max_tokens={max_tokens} leaves no room for a transcript beside the "
                f"{len(self._head) + len(self._tail)} tokens of system prompt and chat template; raise it"
            )

    def pieces(self, chunks: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Token ids of the prefix, piece by piece, and of the last piece, which holds the token that is read."""
        prefix = [piece for piece in (self._head, *_fit(list(map(self.tokens, chunks)), self._room)) if piece]
        last = self._tail
        while len(last) < self._min_last:
            last = prefix.pop() + last
        return prefix, last

    def tokens(self, text: str) -> list[int]:
        """Token ids of untrusted text; none of them is a control token."""
        clean = text.encode("utf-8", "replace").decode("utf-8")
        # A cut after the first character of every spelled control token: no segment contains a whole one.
        cuts = [0, *(match.start() + 1 for match in self._control_start.finditer(clean)), len(clean)]
        segments = (clean[start:end] for start, end in pairwise(cuts))
        ids = [token for segment in segments for token in self._ids(segment)]
        # What is left can only come from the tokenizer's own normalisation.
        return [token for token in ids if token not in self._control or token == self._tokenizer.unk_token_id]

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) if text else []


def _render(tokenizer: Any, system_prompt: str) -> tuple[str, str]:
    """The chat template's text before and after the transcript."""
    from jinja2.exceptions import TemplateError

    template = tokenizer.chat_template
    if not template:
        raise ConfigError(f"encoder: {tokenizer.name_or_path} has no chat template; take an instruction-tuned model")
    known = {name: value for name, value in _TEMPLATE_OPTIONS.items() if name in str(template)}
    apart = [{"role": "system", "content": system_prompt}, {"role": "user", "content": _MARK}]
    folded = [{"role": "user", "content": f"{system_prompt}\n\n{_MARK}"}]
    for messages in (apart, folded):
        try:
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **known)
        except TemplateError:
            continue
        parts = text.split(_MARK)
        if len(parts) == len(("head", "tail")) and system_prompt in parts[0]:
            return parts[0], parts[1]
    raise ConfigError(f"encoder: the chat template of {tokenizer.name_or_path} does not show system and user text")


def _control_tokens(tokenizer: Any, frame: str) -> dict[int, str]:
    """Id -> text of the tokens that give a conversation its form: the special ones and those the template uses."""
    return {
        number: token.content
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special or (token.content.strip() and token.content in frame)
    }


def _fit(chunks: list[list[int]], room: int) -> list[list[int]]:
    """Chunks cut to `room` tokens in all (the rule is in `Framing`)."""
    if sum(map(len, chunks)) <= room:
        return chunks
    question, *turns = chunks
    while len(turns) > 1 and len(question) + sum(map(len, turns)) > room:
        turns = turns[1:]
    rest = sum(map(len, turns))
    if len(question) + rest <= room:
        return [question, *turns]
    for_question = min(len(question), max(room - rest, room - room // 2))
    return [_ends(question, for_question), *(_ends(turn, room - for_question) for turn in turns)]


def _ends(ids: list[int], size: int) -> list[int]:
    """The first and the last tokens, `size` in all."""
    if len(ids) <= size:
        return ids
    return ids[: size - size // 2] + ids[len(ids) - size // 2 :]


Layers = tuple[tuple["torch.Tensor", "torch.Tensor"], ...]
"""Keys and values per layer, each (1, heads, tokens, head size)."""


class PrefixCache:
    """Keys and values of single pieces by the prefix that ends with them; least recently used go first.

    A piece is stored once however many transcripts share its prefix, and stored tensors are never written to.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: OrderedDict[str, Layers] = OrderedDict()
        self.n_bytes = 0

    def get(self, key: str) -> Layers | None:
        """The piece, or None."""
        return self._pieces.get(key)

    def keep(self, keys: Sequence[str], pieces: Sequence[Layers]) -> None:
        """Store or refresh a chain of pieces, first to last."""
        # From the end: a piece is worthless without those before it, so these must be evicted after it.
        for key, piece in reversed(list(zip(keys, pieces, strict=True))):
            if key not in self._pieces:
                self._pieces[key] = piece
                self.n_bytes += _size(piece)
            self._pieces.move_to_end(key)
        while self.n_bytes > self._max_bytes:
            self.n_bytes -= _size(self._pieces.popitem(last=False)[1])


def _size(layers: Layers) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in layers)


class StateCache:
    """States by transcript, least recently used go first; equal requests in flight share one computation.

    A cancelled waiter never cancels what others wait for, and a failure reaches all waiters once and is not kept.
    """

    def __init__(self, start: Callable[[tuple[str, ...]], Future[State]], size: int, counters: Counters) -> None:
        self._start = start
        self._size = size
        self._counters = counters
        self._states: OrderedDict[str, Future[State]] = OrderedDict()
        self._lock = threading.RLock()

    async def get(self, chunks: tuple[str, ...]) -> State:
        """The state of `chunks`, known, awaited or started now."""
        key = digest(chunks)
        with self._lock:
            future = self._known(key) or self._add(key, chunks)
        return await asyncio.shield(asyncio.wrap_future(future))

    def _known(self, key: str) -> Future[State] | None:
        future = self._states.get(key)
        if future is not None:
            self._states.move_to_end(key)
            self._counters.hits += 1
        return future

    def _add(self, key: str, chunks: tuple[str, ...]) -> Future[State]:
        future = self._states[key] = self._start(chunks)
        while len(self._states) > self._size:
            self._states.popitem(last=False)
        future.add_done_callback(lambda done: self._drop_failed(key, done))
        return future

    def _drop_failed(self, key: str, done: Future[State]) -> None:
        if done.cancelled() or done.exception() is not None:
            with self._lock:
                if self._states.get(key) is done:
                    del self._states[key]


class TransformersEncoder:
    """The coordinator's backbone: one forward pass, the state after the final norm at one token of the input.

    (paper, section 3; the chat template, system prompt and position are those of the authors' code.)

    A transcript is always computed piece by piece, each piece of `Framing` in a pass of its own on the keys and values
    of those before, whether they were cached or not. So a state depends on the transcript alone, to the last bit
    (for one machine, one number of threads and one version of torch); against a single pass over the whole input it
    differs by rounding.

    All computing happens in one worker thread. `threads` is set there by `torch.set_num_threads`, which other users
    of torch in this process feel too.

    Args:
        backbone: model and tokenizer.
        system_prompt: the dispatcher's; default: `router_prompt()`.
        readout: which token's state is read.
        threads: of one forward pass.
        max_tokens: length at which `Framing` cuts; the model's own limit counts where it is lower.
        cache_bytes: bound on stored keys and values.
        cache_states: bound on stored states.

    Raises:
        ConfigError: `readout` is unknown, the model keeps other state than keys and values, or its chat template cannot
            be used.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        system_prompt: str | None = None,
        readout: Readout = "penultimate",
        threads: int = 1,
        max_tokens: int = 2048,
        cache_bytes: int = 256 * 2**20,
        cache_states: int = 100_000,
    ) -> None:
        check_choice("encoder.readout", readout, _FROM_END)
        config = backbone.model.config.get_text_config()
        _require_attention(backbone)
        limit = min(max_tokens, getattr(config, "max_position_embeddings", None) or max_tokens)
        prompt = router_prompt() if system_prompt is None else system_prompt
        self._model = backbone.model
        self._framing = Framing(backbone.tokenizer, prompt, limit, _FROM_END[readout])
        self._from_end = _FROM_END[readout]
        self._threads = threads
        self._prefixes = PrefixCache(cache_bytes)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self.d = int(config.hidden_size)
        self.counters = Counters()
        self.name = f"{backbone.identity}/{self._framing.identity[:16]}/{readout}/{backbone.dtype}/{limit}"
        self._states = StateCache(lambda chunks: self._worker.submit(self._state, chunks), cache_states, self.counters)
        self._settings = {"dtype": backbone.dtype, "readout": readout, "threads": threads, "max_tokens": limit}
        self._settings |= {"cache_bytes": cache_bytes, "cache_states": cache_states}

    async def encode(self, chunks: tuple[str, ...]) -> State:
        """State of a transcript: the question, then what each turn added. Any text is accepted."""
        return await self._states.get(chunks)

    def settings(self) -> dict[str, Any]:
        """Name, size, threads, bounds and library versions, for the manifest."""
        libraries = {library: version(library) for library in ("torch", "transformers", "tokenizers")}
        return {"encoder": self.name, "d": self.d, **self._settings, **libraries}

    def close(self) -> None:
        """Wait for the state being computed, cancel those queued (their waiters get CancelledError)."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _state(self, chunks: tuple[str, ...]) -> State:
        import torch

        torch.set_num_threads(self._threads)
        prefix, last = self._framing.pieces(chunks)
        with torch.inference_mode():
            vector = self._read(self._forward(last, self._prefix(prefix)))
        self.counters.states += 1
        return State(vector, sum(map(len, prefix)) + len(last))

    def _prefix(self, pieces: Sequence[list[int]]) -> DynamicCache:
        """Keys and values of all pieces, in tensors that the caller may extend."""
        # Borders are part of a key: equal tokens cut elsewhere give other roundings.
        keys = list(accumulate(map(digest, pieces), lambda before, own: sha256(before + own)))
        known: list[Layers] = []
        for key in keys:
            layers = self._prefixes.get(key)
            if layers is None:
                break
            known.append(layers)
        cache = _joined(known)
        for piece in pieces[len(known) :]:
            self._forward(piece, cache)
            known.append(_newest(cache, len(piece)))
        self._prefixes.keep(keys, known)
        return cache

    def _forward(self, ids: Sequence[int], cache: DynamicCache) -> torch.Tensor:
        """States of `ids` (tokens, d) behind what `cache` holds; extends `cache`."""
        import torch

        self.counters.tokens += len(ids)
        output = self._model(input_ids=torch.tensor([ids]), cache=cache, use_cache=True)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def _read(self, hidden: torch.Tensor) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = hidden[-self._from_end].float().numpy().copy()
        vector.flags.writeable = False
        return vector


def from_registry(
    weights: str,
    *,
    dtype: Dtype = "float32",
    store: Weights | None = None,
    **options: Any,
) -> TransformersEncoder:
    """Encoder over weights that `store` locates by name (None: the user's cache); `options` are TransformersEncoder's.

    Raises:
        ConfigError: `dtype` or an option is wrong.
        WeightsError: the weights are missing or damaged.
    """
    _check_names(dtype, options)
    store = store or Weights()
    return TransformersEncoder(Backbone.from_path(store.locate(weights), dtype, _conversions(store.folder)), **options)


def from_path(path: str | Path, *, dtype: Dtype = "float32", **options: Any) -> TransformersEncoder:
    """Encoder over a GGUF file or a transformers folder of one's own; raises as `from_registry`."""
    _check_names(dtype, options)
    return TransformersEncoder(Backbone.from_path(Path(path), dtype), **options)


def from_hub(
    hub_id: str, *, revision: str | None = None, dtype: Dtype = "float32", **options: Any
) -> TransformersEncoder:
    """Encoder over a causal language model of the Hugging Face hub; raises as `from_registry`."""
    _check_names(dtype, options)
    return TransformersEncoder(Backbone.from_hub(hub_id, revision, dtype), **options)


def _check_names(dtype: str, options: Mapping[str, Any]) -> None:
    """Find slips before anything is fetched, converted or loaded."""
    check_choice("encoder.dtype", dtype, get_args(Dtype))
    check_choice("encoder.readout", options.get("readout", "penultimate"), get_args(Readout))


def _conversions(cache: Path) -> Path:
    """Where converted weights are kept: in the folder for weights, wherever that is."""
    return cache / "encoders"


def _require_attention(backbone: Backbone) -> None:
    """Refuse models with recurrent or convolutional state: theirs cannot be cut into pieces of a prefix."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    kinds = {type(layer) for layer in DynamicCache(config=backbone.model.config).layers}
    if not kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
        name = backbone.model.config.model_type
        raise ConfigError(f"encoder: a {name} model is not pure attention and cannot be an encoder here; take another")


def _joined(pieces: Sequence[Layers]) -> DynamicCache:
    """A cache of its own that holds `pieces` one after the other."""
    import torch
    from transformers import DynamicCache

    # Without the model's config every layer keeps all tokens, so a sliding window can be joined from pieces too.
    cache = DynamicCache()
    for index, layer in enumerate(zip(*pieces, strict=True)):
        keys, values = zip(*layer, strict=True)
        cache.update(torch.cat(keys, dim=-2), torch.cat(values, dim=-2), index)
    return cache


def _newest(cache: DynamicCache, n_tokens: int) -> Layers:
    """Copies of the last `n_tokens` of every layer: a view would keep the whole prefix in memory."""
    return tuple((keys[..., -n_tokens:, :].clone(), values[..., -n_tokens:, :].clone()) for keys, values, *_ in cache)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bars and notes on loading; its settings are put back."""
    import transformers

    logging: Any = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
