"""A manifest says what a run was made of and holds no secret."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from trinity.errors import LedgerError
from trinity.runs import manifest as module
from trinity.runs.manifest import (
    add_wall_time,
    append_change,
    circumstances,
    git_state,
    package_versions,
    read_manifest,
    redact_url,
    write_manifest,
)
from trinity.secrets import NAME

CANARY = "sk-canary-0123456789"


def built(**changes: Any) -> dict[str, Any]:
    """A small run."""
    values: dict[str, Any] = {
        "config": {"trainer": {"popsize": 6}, "x": [1, None, "a"]},
        "pool_kind": "scripted",
        "seeds": {"seed": 0, "data.seed": 1, "eval.seed": 2},
        "threads": {"encoder": 1},
        "data": {"sums": "0" * 64},
        "graders": {"sums": "number/1"},
        "prompts": {"worker.txt": "1" * 64},
        "splits": {"sums": {"test": ("i1", "i2")}},
        "endpoints": {},
        "price_table": None,
    }
    return {**values, **changes, **circumstances()}


def test_manifest_holds_what_the_contract_lists(tmp_path: Path) -> None:
    """Everything that a reader needs to judge a run is there and comes back from the file."""
    path = tmp_path / "manifest.json"
    made = built()
    write_manifest(path, made)
    found = read_manifest(path)
    assert found["config"] == {"trainer": {"popsize": 6}, "x": [1, None, "a"]}
    assert found["splits"] == {"sums": {"test": ["i1", "i2"]}}
    assert found["price_table"] is None
    assert found["changes"] == []
    assert found["packages"]["numpy"] == package_versions()["numpy"]
    assert found["machine"]["cores"] >= found["machine"]["usable_cores"] >= 1
    assert found["machine"]["memory_bytes"] > 1 << 28
    assert {"git", "python", "started", "wall_time_s", "seeds", "threads", "pool_kind", "endpoints"} <= found.keys()
    assert set(found) == set(made)


def test_missing_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is not installed has no version, and is no error."""
    monkeypatch.setattr(module, "PACKAGES", ("numpy", "no-such-distribution"))
    assert list(package_versions()) == ["numpy"]


def test_changes_and_wall_time_add_up(tmp_path: Path) -> None:
    """Each later change stands with its time; the time of a continuation is added."""
    path = tmp_path / "manifest.json"
    write_manifest(path, built())
    append_change(path, "resumed with budget.usd=2")
    append_change(path, "graded again")
    add_wall_time(path, 1.5)
    add_wall_time(path, 2.0)
    found = read_manifest(path)
    assert [change["note"] for change in found["changes"]] == ["resumed with budget.usd=2", "graded again"]
    assert all(change["time"] >= found["started"] for change in found["changes"])
    assert found["wall_time_s"] == 3.5


@pytest.mark.parametrize("name", ["MY_API_KEY", "hf_token", "SECRET_THING", "DB_PASSWORD", "DB_CREDENTIAL", "MY_AUTH"])
def test_secrets_of_the_environment_are_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A value of a variable named like a secret is in no manifest: not as value, part, key, number or note."""
    monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv(name + "_2", "1234567890")
    path = tmp_path / "manifest.json"
    config = {"key": CANARY, "args": [f"--key={CANARY}", {f"x{CANARY}": 1}], "n": 1234567890, "kept": "sk-canary"}
    write_manifest(path, built(config=config))
    append_change(path, f"overrides: key={CANARY}")
    text = path.read_text()
    assert CANARY not in text
    assert "1234567890" not in text
    assert read_manifest(path)["config"] == {
        "key": "***",
        "args": ["--key=***", {"x***": 1}],
        "n": "***",
        "kept": "sk-canary",
    }


def test_a_secret_that_contains_another_is_redacted_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tail of the longer one stays."""
    monkeypatch.setenv("A_KEY", CANARY)
    monkeypatch.setenv("B_KEY", CANARY + "-and-the-tail")
    write_manifest(tmp_path / "m.json", built(config={"k": CANARY + "-and-the-tail"}))
    assert read_manifest(tmp_path / "m.json")["config"] == {"k": "***"}


def test_a_secret_is_redacted_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Percent-encoded, in JSON, in base64, alone or within a longer text: a manifest holds no form of it."""
    secret = 'sk-canary/+ "0123'
    monkeypatch.setenv("A_KEY", f"{secret}\n")
    basic = b64encode(f"me:{secret}".encode()).decode()
    texts = [quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret), f"Basic {basic}"]
    write_manifest(tmp_path / "m.json", built(config={"k": texts}))
    found = read_manifest(tmp_path / "m.json")["config"]["k"]
    assert found[:4] == ["***", "***", "***", '"***"']
    assert found[4].startswith("Basic bWU6***")


def test_what_a_run_calls_its_parts_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent whose name is also the value of a variable like MODEL_AUTH can be replayed: its name is left alone."""
    names = {"name": "step_by_step", "endpoint": "main-endpoint", "model": "qwen/qwen3-32b"}
    manifest = built(config={"methods": {"best_single": {}}, "k": CANARY})
    manifest |= {"pool": "trinity-pool", "agents": [names]}
    for number, value in enumerate([*names.values(), "trinity-pool", "best_single", CANARY]):
        monkeypatch.setenv(f"AUTH_{number}", value)
    write_manifest(tmp_path / "m.json", manifest)
    found = read_manifest(tmp_path / "m.json")
    assert (found["pool"], found["agents"]) == ("trinity-pool", [names])
    assert found["config"] == {"methods": {"best_single": {}}, "k": "***"}


def test_short_values_are_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable such as USE_AUTH=false does not blank every false."""
    monkeypatch.setenv("USE_AUTH", "false")
    write_manifest(tmp_path / "m.json", built(config={"k": "false"}))
    assert read_manifest(tmp_path / "m.json")["config"] == {"k": "false"}


def test_secret_that_cannot_be_redacted_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that only appears where entries meet stops the write and is named by its variable, not shown."""
    monkeypatch.setenv("ODD_KEY", '"aaaa", "bbbb"')
    with pytest.raises(LedgerError, match="the value of ODD_KEY") as caught:
        write_manifest(tmp_path / "m.json", built(config={"k": ["aaaa", "bbbb"]}))
    assert "aaaa" not in str(caught.value)
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(("AUTHORIZATION", True), ("X-Auth-Request", True), ("PGPASSWORD", True), ("DB_PASS", True)),
        *(("SESSION_COOKIE", True), ("GIT_AUTHOR_NAME", False), ("TOKENIZERS_PARALLELISM", False), ("PATH", False)),
    ],
)
def test_a_name_tells_a_secret(name: str, *, secret: bool) -> None:
    """Names of variables, headers and parameters are judged by one pattern."""
    assert bool(NAME.search(name)) is secret


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:pw@host:8000/v1?key=abc#frag", "https://host:8000/v1"),
        ("http://us%40er:p@w@host/v1", "http://host/v1"),
        ("https://host/models/x@main", "https://host/models/x@main"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("see https://a@b/c?d=e and https://f/g", "see https://b/c and https://f/g"),
        ("http://[::1]:80/v1?x", "http://[::1]:80/v1"),
        ("no url? at@all", "no url? at@all"),
    ],
)
def test_urls_lose_their_private_parts(url: str, expected: str) -> None:
    """User info, query and fragment go, the rest stays."""
    assert redact_url(url) == expected


def test_urls_in_a_manifest_lose_their_private_parts(tmp_path: Path) -> None:
    """Endpoint settings are redacted wherever a URL stands in them."""
    endpoints = {"e": {"base_url": "https://user:pw@host/v1?key=abc"}}
    write_manifest(tmp_path / "m.json", built(endpoints=endpoints))
    assert read_manifest(tmp_path / "m.json")["endpoints"] == {"e": {"base_url": "https://host/v1"}}


@pytest.mark.parametrize("content", ["{}", "[]", '{"format": 0}', '{"format": 1'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    """A JSON file that is no manifest, or none at all, is named."""
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(LedgerError, match=r"manifest\.json"):
        append_change(path, "x")
    assert path.read_text() == content


def git(folder: Path, *arguments: str) -> str:
    """Run git with an identity of its own."""
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_git_state_is_that_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit and dirty flag follow the checkout; a file that it does not track has neither."""
    file = tmp_path / "module.py"
    monkeypatch.setattr(module, "__file__", str(file))
    assert git_state(tmp_path) == (None, None)
    git(tmp_path, "init", "-q")
    file.write_text("x = 1\n")
    assert git_state(tmp_path) == (None, None)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    assert git_state(tmp_path) == (git(tmp_path, "rev-parse", "HEAD"), False)
    file.write_text("x = 2\n")
    assert git_state(tmp_path)[1] is True


def test_no_git_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the program there is no commit."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == (None, None)


def test_manifest_is_plain_json(tmp_path: Path) -> None:
    """Any JSON reader can read it."""
    write_manifest(tmp_path / "m.json", built(config={"name": "Größe \udcff"}))
    assert json.loads((tmp_path / "m.json").read_text())["config"]["name"] == "Größe \udcff"
