"""Time to `python -m trinity.run --help`, beside a Hydra application of one key."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = 7
TRIVIAL = """
import hydra

@hydra.main(config_path="conf", config_name="config", version_base="1.3")
def main(cfg):
    print(cfg)

main()
"""


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of one run of a command."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def compare(runs: int) -> dict[str, object]:
    """Best wall time of each, taken in turns, so that a busy moment meets both."""
    with tempfile.TemporaryDirectory() as folder:
        trivial = Path(folder)
        (trivial / "conf").mkdir()
        (trivial / "conf" / "config.yaml").write_text("key: 1\n", "utf-8")
        (trivial / "app.py").write_text(TRIVIAL, "utf-8")
        ours, rivals = [], []
        for _ in range(runs):
            rivals.append(seconds([sys.executable, "app.py", "--help"], trivial))
            ours.append(seconds([sys.executable, "-m", "trinity.run", "--help"], ROOT))
    return line(min(ours), min(rivals))


def line(value: float, rival: float) -> dict[str, object]:
    """The comparison of two wall times as one JSON object; `ok` is judged before rounding."""
    return {
        "bench": "help",
        "value": round(value, 3),
        "unit": "s",
        "rival": "a Hydra application of one key",
        "rival_value": round(rival, 3),
        "ratio": round(value / rival, 2),
        "target": "value < 1 and ratio <= 2",
        "ok": value < 1 and value <= 2 * rival,
    }


def main() -> None:
    """Print the comparison as one JSON line."""
    print(json.dumps(compare(RUNS)))
