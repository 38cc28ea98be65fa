"""Rows in the columns of public benchmarks, made here: chess positions with a mate on the back rank, and sums."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Mate(NamedTuple):
    """A position before a black pawn's step, the step, the position after it, and White's mate there."""

    before: str
    step: str
    after: str
    mate: str


def back_rank(count: int) -> list[Mate]:
    """Different positions with one mate, by the rook on the back rank."""
    made = []
    for file in "bcde":
        for rank in range(7, 2, -1):
            for rook in range(1, 8):
                before, after = (
                    f"{_placed(file + str(at), f'a{rook}')} {side}"
                    for at, side in ((rank, "b - - 0 20"), (rank - 1, "w - - 0 21"))
                )
                made.append(Mate(before, f"{file}{rank}{file}{rank - 1}", after, f"a{rook}a8"))
    return made[:count]


def _placed(pawn: str, rook: str) -> str:
    """Both kings behind three pawns, a white rook and a black pawn, as the board part of a FEN."""
    board = {pawn: "p", rook: "R", "g8": "k", "g1": "K"}
    board |= {f"{wing}7": "p" for wing in "fgh"} | {f"{wing}2": "P" for wing in "fgh"}
    ranks = ["".join(board.get(f"{file}{rank}", ".") for file in "abcdefgh") for rank in range(8, 0, -1)]
    return "/".join(re.sub(r"\.+", lambda gap: str(len(gap[0])), rank) for rank in ranks)


def lichess(count: int) -> list[dict[str, Any]]:
    """Rows as in Lichess/chess-puzzles; ratings rise from 1000 by 10, every third is a fork by its themes."""
    return [
        {
            "PuzzleId": f"p{index:04}",
            "FEN": puzzle.before,
            "Moves": f"{puzzle.step} {puzzle.mate}",
            "Rating": 1000 + 10 * index,
            "RatingDeviation": 75,
            "Themes": "crushing fork short" if index % 3 == 0 else "endgame mate mateIn1 oneMove",
            "OpeningTags": None,
        }
        for index, puzzle in enumerate(back_rank(count))
    ]


def rated(count: int) -> list[dict[str, float]]:
    """What Easy2Hard-Bench says of difficulty: quantiles spread evenly, three uncertainties in turn."""
    return [
        {"rating": index / count, "rating_std": 0.1 + index % 3, "rating_quantile": (index + 0.5) / count}
        for index in range(count)
    ]


def e2h_lichess(count: int) -> list[dict[str, Any]]:
    """Rows as in E2H-Lichess."""
    return [
        {
            **difficulty,
            "puzzle_id": f"p{index:04}",
            "fen": puzzle.after,
            "pgn": f"1. e4 e5 2. Nf3 Nc6 {index}",
            "answer_san": "Ra8#",
            "answer_uci": puzzle.mate,
            "tag": "backRankMate endgame mate mateIn1",
        }
        for index, (puzzle, difficulty) in enumerate(zip(back_rank(count), rated(count), strict=True))
    ]


def e2h_amc(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows as in E2H-AMC, with sums as problems."""
    return [
        {
            **difficulty,
            "contest": "AMC",
            "tag": "AMC10" if index % 2 else "AMC12",
            "year": 2000 + index % 20,
            "index": index % 25,
            "problem": f"What is ${first + index} + 1$?",
            "answer": str(first + index + 1),
        }
        for index, difficulty in enumerate(rated(count))
    ]


def write(file: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A file of rows in the format that its name says."""
    name = file.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(list(rows)), file)
        return file
    with (
        gzip.open(file, "wt", encoding="utf-8", newline="")
        if file.suffix == ".gz"
        else file.open("w", newline="") as to
    ):
        if name.endswith(".csv"):
            writer = csv.DictWriter(to, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        elif name.endswith(".json"):
            json.dump(list(rows), to)
        else:
            to.writelines(json.dumps(row) + "\n" for row in rows)
    return file
