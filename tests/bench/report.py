"""A report of 10,000 episodes: seconds to write it, its size, and seconds until Chromium shows its list.

The page is opened three times in a fresh tab; the median counts. Without a browser on PATH its line says so.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from evals.report.reports import write_reports
from tests.evals.report.told import Texts, told_run

ITEMS = 3334
"""With three episodes each."""
MOST_SECONDS = 3.0
MOST_WRITING_S = 30.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def prose(seed: str, n_words: int) -> str:
    """Words of which a few are frequent, as in any language; they pack about as well."""
    stream = random.Random(seed)
    return " ".join(f"word{int(stream.paretovariate(0.7)) % 20_000}" for _ in range(n_words))


def report(folder: Path) -> tuple[Path, dict[str, float]]:
    """A page of answers as long as a real model's, and what it took to write it."""
    said = Texts(
        prompt=lambda number: f"Question {number}: {prose(f'{number}', 60)}",
        reply=lambda number, role: f"{role} {number}: {prose(f'{number} {role}', 150)}",
    )
    data = told_run(folder / "ledger.sqlite", ITEMS, said)
    began = time.perf_counter()
    _, page = write_reports(folder, data)
    seconds = time.perf_counter() - began
    beside = sum(file.stat().st_size for file in (folder / "report_data").glob("*"))
    return page, {"write_s": seconds, "page_mb": page.stat().st_size / 1e6, "beside_mb": beside / 1e6}


def opening_seconds(page: Path, browser: str) -> float:
    """From the wish to see the page to its list, filled."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(3):
            tab = chromium.new_page()
            began = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready=yes]")
            times.append(time.perf_counter() - began)
            tab.close()
        chromium.close()
    return statistics.median(times)


def line(what: str, value: float | None, most: float, **more: float) -> dict[str, object]:
    """One result; `ok` is judged before rounding, and unknown without a value."""
    return {
        "bench": f"report: {what}",
        "episodes": 3 * ITEMS,
        "value": None if value is None else round(value, 2),
        "unit": "s",
        "target": f"value <= {most:g}",
        "ok": None if value is None else value <= most,
        **{key: round(number, 2) for key, number in more.items()},
    }


def main() -> None:
    """Print the results as JSON lines."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as folder:
        page, written = report(Path(folder))
        print(json.dumps(line("write", written.pop("write_s"), MOST_WRITING_S, **written)))
        seconds = None if browser is None else opening_seconds(page, browser)
    note = {} if browser else {"note": f"none of {', '.join(BROWSERS)} is on PATH"}
    print(json.dumps(line("open in Chromium", seconds, MOST_SECONDS) | note))


if __name__ == "__main__":
    main()
