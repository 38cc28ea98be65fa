"""Keys planted wherever a key may be, and endpoints that throw them back: no command leaves or shows one."""

from __future__ import annotations

import json
import subprocess
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, quote_plus

import pyarrow.parquet as pq
import pytest

from tests.commands import command, only_run

KEYS = {
    "OPENAI_API_KEY": "sk-canary/key+1=",
    "AZURE_OPENAI_KEY": "canary0azure0key0",
    "ANTHROPIC_API_KEY": "sk-ant-canary-unused",
    "HF_TOKEN": "hf_canary_token",
    "DB_PASSWORD": "canary-db-password",
    "SOME_SECRET": "canary some secret",
}
USER, PASSWORD, QUERY = "canary-user", "canary:pass/word", "canary+query=1"
SEEN = "EchoOfTheRequest"
"""Stands beside every echo, so that a search which finds it would have found a key."""

SMALL = (
    "+experiment=scripted",
    "pool=openai_http",
    "method=[single]",
    "data.n_train=1",
    "data.n_val=1",
    "data.n_test=1",
    "eval.replicates=1",
    "retry.longest_backoff_s=0.01",
)
URL_QUERY = ("+pool.endpoints.main.query={api-version: 5}", "+pool.endpoints.main.query_env={code: URL_CODE}")
OTHER_HEADER = "+pool.endpoints.main.header_env={api-key: AZURE_OPENAI_KEY}"


class Echo(ThreadingHTTPServer):
    """An endpoint that answers the n-th attempt of each request in the n-th way, the last one again and again."""

    daemon_threads = True

    def __init__(self, ways: tuple[str, ...]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ways, self.asked = ways, Counter[str]()
        self.received: list[str] = []
        self.lock = threading.Lock()

    def url(self, *, user: bool = True) -> str:
        """Its base URL, with a user if that is wanted."""
        who = f"{USER}:{quote(PASSWORD, safe='')}@" if user else ""
        return f"http://{who}127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none of ours."""

    def way(self, request_id: str, received: str) -> str:
        """How to answer this attempt."""
        with self.lock:
            self.received.append(received)
            number = min(self.asked[request_id], len(self.ways) - 1)
            self.asked[request_id] += 1
            return self.ways[number]


class Handler(BaseHTTPRequestHandler):
    """Throws back what it got: plain, decoded, in base64, in headers, in text and in errors."""

    protocol_version = "HTTP/1.1"
    server: Echo

    def do_POST(self) -> None:
        """Answer in the way that it is this attempt's turn to."""
        self.rfile.read(int(self.headers["Content-Length"]))
        sent = f"{self.path} {self.headers}"
        known = [key for key in KEYS.values() if key in sent] + [QUERY] + [PASSWORD] * ("Basic" in sent)
        coded = [form for key in known for form in (key, quote(key), b64encode(key.encode()).decode())]
        echo = f"{SEEN} {sent} {' '.join(coded)}"
        way = self.server.way(self.headers["X-Client-Request-Id"], sent)
        if way == "hang up":
            self.close_connection = True
        elif way == "garbled":
            self.wfile.write(f"HTTP/1.1 200 {self.path}\nno header {echo!r}\r\n\r\n".encode())
            self.close_connection = True
        elif way.isdigit():
            self._send(int(way), json.dumps({"error": {"message": echo}}), {"Location": sent, "Retry-After": sent})
        else:
            message = {"role": "assistant", "content": f"Answer: 3 {echo}", "reasoning": echo}
            choice = {"message": message, "finish_reason": echo if way == "strange end" else "stop"}
            body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})
            self._send(200, f"<p>{echo}</p>" if way == "no JSON" else body, {"Set-Cookie": f"a={sent}"})

    def _send(self, status: int, body: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body.encode()))}.items():
            self.send_header(name, " ".join(value.split()))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def echo(*ways: str) -> Iterator[Echo]:
    """A running endpoint."""
    with Echo(ways) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def forms(secret: str) -> set[str]:
    """The ways in which a secret may be written, base64 at any place of a longer text included."""
    found = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]}
    for shift in range(3):
        coded = b64encode(b" " * shift + secret.encode()).decode()
        first, last = -(-shift * 8 // 6), (shift + len(secret)) * 8 // 6
        found.add(coded[first:last])
    return found


FORBIDDEN = {form: name for name, key in {**KEYS, "password": PASSWORD, "query": QUERY}.items() for form in forms(key)}
FORBIDDEN |= dict.fromkeys(forms(USER), "user")


def content(file: Path) -> str:
    """What a file holds, Parquet's compressed columns included."""
    if file.suffix == ".parquet":
        return str(pq.read_table(file).to_pylist())
    return file.read_bytes().decode("latin-1")


def leaks(folder: Path, *outputs: subprocess.CompletedProcess[str]) -> list[str]:
    """Where a secret can be found: in files below a folder, their names, and what commands printed."""
    places = {str(file): content(file) for file in folder.rglob("*") if file.is_file()}
    places |= {f"path {path}": path for path in list(places)}
    for number, done in enumerate(outputs):
        places |= {f"stdout {number}": done.stdout, f"stderr {number}": done.stderr}
    return [f"{name} in {place}" for place, text in places.items() for form, name in FORBIDDEN.items() if form in text]


def run(folder: Path, server: Echo, *words: str, user: bool = True) -> subprocess.CompletedProcess[str]:
    """One small run at an endpoint whose URL comes from the environment."""
    environment = {**KEYS, "URL_CODE": QUERY, "OPENAI_BASE_URL": server.url(user=user), "OPENAI_MODEL": "m"}
    return command("trinity.run", *SMALL, *URL_QUERY, *words, cwd=folder, **environment)


def test_the_search_finds_what_it_should(tmp_path: Path) -> None:
    """A key in any of its forms, in a file, in a name or in a table, is found."""
    for number, form in enumerate(FORBIDDEN):
        (tmp_path / f"{number}.txt").write_text(f"<{form}>", "utf-8")
    assert {leak.partition(" in ")[0] for leak in leaks(tmp_path)} == set(FORBIDDEN.values())
    for key in (*KEYS.values(), PASSWORD, QUERY):
        for lead in ("", "x", "xy"):
            assert any(form in b64encode(f"{lead}{key}tail".encode()).decode() for form in forms(key))


def test_a_run_that_meets_every_echo(tmp_path: Path) -> None:
    """Errors, pages, broken and garbled answers, then a text with all keys in it: the run ends well and holds none."""
    ways = ("500", "no JSON", "strange end", "garbled", "hang up", "503", "ok")
    with echo(*ways) as server:
        done = run(tmp_path, server, OTHER_HEADER, "debug=true", f"retry.attempts={len(ways)}", user=False)
    assert done.returncode == 0, done.stderr
    assert all(KEYS["OPENAI_API_KEY"] in sent and KEYS["AZURE_OPENAI_KEY"] in sent for sent in server.received)
    assert all(quote(QUERY, safe="") in sent for sent in server.received)
    folder = only_run(tmp_path)
    shown = command("trinity.replay", str(folder), "debug=true", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert SEEN in content(folder / "ledger.sqlite")
    assert SEEN in content(tmp_path / "outputs" / "store.sqlite")
    assert "***" in content(folder / "ledger.sqlite")
    assert leaks(tmp_path, done, shown) == []


@pytest.mark.parametrize("debug", ["false", "true"])
def test_a_run_that_is_refused(tmp_path: Path, debug: str) -> None:
    """A 401 that repeats the key stops the run with a line, and with a traceback, that do not."""
    with echo("401") as server:
        done = run(tmp_path, server, "pool.endpoints.main.api_key_env=null", f"debug={debug}")
    assert done.returncode == 2
    assert SEEN in done.stderr
    assert ("Traceback" in done.stderr) is (debug == "true")
    assert all("Authorization: Basic" in sent for sent in server.received)
    assert leaks(tmp_path, done) == []


def test_a_run_whose_every_call_fails(tmp_path: Path) -> None:
    """Attempts that end within aiohttp, whose errors hold the whole URL, are written down without it."""
    with echo("garbled") as server:
        done = run(tmp_path, server, OTHER_HEADER, "debug=true", "retry.attempts=2")
    assert server.received
    assert "127.0.0.1" in content(only_run(tmp_path) / "ledger.sqlite")
    assert leaks(tmp_path, done) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("pool.endpoints.main.base_url={url}", "pool.endpoints.main.connect_timeout_s=none"), "connect_timeout_s"),
        (("pool.endpoints.main.base_url={url}", "pool.endpoints.main.api_key_env={key}"), "api_key_env must be"),
    ],
    ids=["beside a mistake", "as a variable"],
)
def test_a_key_on_the_command_line(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    """Whoever types a key where none belongs gets a line, and with debug a traceback, that do not repeat it."""
    with echo("ok") as server:
        url = f"'{server.url()}'"
        typed = [word.format(url=url, key=KEYS["AZURE_OPENAI_KEY"]) for word in words]
        done = run(tmp_path, server, *typed, "debug=true")
    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    assert server.received == []
    assert leaks(tmp_path, done) == []


def test_a_query_in_a_url_is_refused(tmp_path: Path) -> None:
    """It may hold a key, so the line, and with debug a traceback, say where it belongs and do not repeat it."""
    with echo("ok") as server:
        url = f"{server.url()}?code={quote(QUERY, safe='')}"
        done = run(tmp_path, server, f"pool.endpoints.main.base_url='{url}'", "debug=true")
    assert done.returncode == 2, done.stderr
    assert "base_url has a query" in done.stderr
    assert server.received == []
    assert leaks(tmp_path, done) == []


def test_a_url_on_the_command_line_is_kept_without_its_secrets(tmp_path: Path) -> None:
    """The manifest keeps the configuration; of a URL that was typed with a key it keeps what is no secret."""
    with echo("ok") as server:
        done = run(tmp_path, server, f"pool.endpoints.main.base_url='{server.url()}'")
    assert done.returncode == 0, done.stderr
    manifest = json.loads(content(only_run(tmp_path) / "manifest.json"))
    for config in (manifest["config"], manifest["recipe"]):
        kept = config["pool"]["endpoints"]["main"]
        assert kept["base_url"] == f"http://127.0.0.1:{server.server_port}/v1"
        assert (kept["query"], kept["query_env"]) == ({"api-version": 5}, {"code": "URL_CODE"})
    assert leaks(tmp_path, done) == []
