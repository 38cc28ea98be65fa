"""Chess puzzles of Lichess, rated by the players who tried them, and what all tasks that ask for a move share."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.graders.chess_move import VERSION, legal_move, mates, read_board, read_move, right_moves
from evals.tasks.base import SplitTask, item_id
from evals.tasks.benchmark import filled, prompt_text
from evals.tasks.hub import Row, Source, shuffled
from trinity.errors import ConfigError, DataError
from trinity.types import Episode, Grade, Item, Judge, Message, Split

if TYPE_CHECKING:
    import chess

_PHASES = ("opening", "middlegame", "endgame")
_GENERAL = frozenset(
    (
        *("oneMove", "short", "long", "veryLong", "crushing", "advantage", "equality", "mate"),
        *("master", "masterVsMaster", "superGM", *_PHASES),
    )
)
"""Themes that say how long, how good, in which phase or by whom, not what the puzzle is about."""


class MoveTask(SplitTask):
    """A task that asks for one move: the solution is right, and so is any move that mates at once."""

    grader = VERSION

    def open(self, item: Item) -> list[Message]:
        """One user message: the prompt file with the question in it."""
        return [{"role": "user", "content": filled(prompt_text("chess_move"), question=item.prompt)}]

    def key(self, item: Item, text: str) -> str | None:
        """The move in UCI, so that equal moves have equal keys however they are written."""
        return read_move(text, item.meta["fen"])

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 for a right move, 0 for any other, legal or not."""
        answer = None if episode.answer is None else self.key(item, episode.answer)
        return Grade(float(answer in item.meta["right"]), answer)

    def move_item(
        self, board: chess.Board, move: str, *, domain: str, rating: float, puzzle: str, pgn: str = ""
    ) -> Item:
        """An item that asks for `move` (UCI or SAN); `rating` is its difficulty, `puzzle` its id in the source.

        Raises:
            DataError: the position does not allow the move.
        """
        solution = legal_move(board, move)
        prompt = _question(board, pgn, mate=mates(board, solution))
        meta = {"fen": board.fen(), "right": list(right_moves(board.fen(), solution.uci())), "puzzle": puzzle}
        return Item(item_id(self.name, prompt), self.name, prompt, solution.uci(), domain, rating, "human", meta)


class LichessPuzzles(MoveTask):
    """Open puzzles of Lichess; difficulty is the Glicko-2 rating that players' attempts gave, domain the theme.

    Asked is the reply to the opponent's first move: the first of `Moves` leads to the position and is played before.
    Lichess makes puzzles only of positions in which one move is clearly best, so one move can be graded whatever the
    puzzle's length; only mates may have equals, and those are right too. So all themes are taken unless told
    otherwise; `themes=[mateIn1]` gives what E2H-Lichess asks, where the one move is the whole solution.

    One split on the hub, cut by `data_seed`. All rows are looked at and none is kept that is not chosen, so the
    choice is uniform over millions of rows in little memory.

    Args:
        data_seed: chooses the items and cuts the splits.
        n_train: items of the training split.
        n_val: items of the validation split.
        n_test: items of the test split.
        themes: puzzles with at least one of them (`mateIn1`, `fork`, ...); empty or None = all.
        ratings: lowest and highest rating, each None for any; None = all.
        path: a local copy of the rows (see `hub.Source`).
        revision: commit or tag on the hub; None = the newest.
    """

    name = "lichess_puzzles"
    licence = "CC0-1.0"

    def __init__(
        self,
        *,
        data_seed: int,
        n_train: int,
        n_val: int,
        n_test: int,
        themes: Collection[str] | None = None,
        ratings: Sequence[float | None] | None = None,
        path: str | Path | None = None,
        revision: str | None = None,
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(data_seed=data_seed, n_train=n_train, n_val=n_val, n_test=n_test)
        self.themes = _chosen_themes(themes)
        low, high = _ends(ratings)
        self.rating_min = -math.inf if low is None else low
        self.rating_max = math.inf if high is None else high
        self.source = Source(self.name, "Lichess/chess-puzzles", None, revision, path)
        self._rows: list[Row] | None = None

    def load(self, split: Split) -> tuple[Item, ...]:
        """The split's part of the chosen puzzles: test first, then validation, then training.

        Raises:
            DataError: the rows can not be read, or one of them is broken.
            ConfigError: the splits ask for more puzzles than there are; the chess library is not installed.
        """
        wanted = sum(self.sizes.values())
        if self._rows is None:
            columns = ("PuzzleId", "FEN", "Moves", "Rating", "Themes")
            fitting = filter(self._fits, self.source.rows("train", columns))
            self._rows = shuffled(fitting, f"{self.name}/{self.data_seed}", _identity, limit=wanted)
        if wanted > len(self._rows):
            raise ConfigError(
                f"task {self.name}: {wanted} items asked for, {len(self._rows)} puzzles have these themes and ratings; "
                "lower n_train, n_val or n_test, or widen the choice"
            )
        # Test first: its items stay the same when the other sizes change.
        order: tuple[Split, ...] = ("test", "val", "train")
        start = sum(self.sizes[other] for other in order[: order.index(split)])
        return tuple(self._item(row) for row in self._rows[start : start + self.sizes[split]])

    def _fits(self, row: Row) -> bool:
        themed = not self.themes or not self.themes.isdisjoint(row.words("Themes"))
        return themed and self.rating_min <= row.number("Rating") <= self.rating_max

    def _item(self, row: Row) -> Item:
        moves = row.words("Moves")
        if len(moves) < 2:  # noqa: PLR2004 - the set-up move and the reply
            raise row.wrong("Moves", "the set-up move and the solution")
        try:
            board = read_board(row.text("FEN"))
            board.push(legal_move(board, moves[0]))
            return self.move_item(
                board,
                moves[1],
                domain=motif(row.words("Themes")),
                rating=row.number("Rating"),
                puzzle=row.text("PuzzleId"),
            )
        except DataError as error:
            raise row.error(error) from error


def _chosen_themes(themes: Any) -> frozenset[str]:
    """Themes of which a puzzle has one; none = all."""
    if themes is None:
        return frozenset()
    if not isinstance(themes, (list, tuple, set, frozenset)) or not all(
        isinstance(theme, str) and theme for theme in themes
    ):
        example = f"[{themes[:60]}]" if isinstance(themes, str) and themes else "[fork,pin]"
        raise ConfigError(f"tasks.lichess_puzzles.themes is {_shown(themes)}; give a list, as themes={example}")
    return frozenset(themes)


def _ends(ratings: Any) -> tuple[float | None, float | None]:
    """Lowest and highest rating, None where there is no bound."""
    if ratings is None:
        return None, None
    if not isinstance(ratings, (list, tuple)) or len(ratings) != 2 or not all(map(_is_end, ratings)):  # noqa: PLR2004
        raise ConfigError(
            f"tasks.lichess_puzzles.ratings is {_shown(ratings)}; give two numbers or null, as ratings=[1000,1500]"
        )
    low, high = ratings
    if None not in (low, high) and low > high:
        raise ConfigError(f"tasks.lichess_puzzles.ratings is {_shown(ratings)}; give the lower rating first")
    return low, high


def _is_end(end: Any) -> bool:
    return end is None or (isinstance(end, (int, float)) and not isinstance(end, bool) and math.isfinite(end))


def _shown(value: Any) -> str:
    return repr(value)[:100]


def motif(themes: Collection[str]) -> str:
    """What a puzzle is about: its first theme by name that tells, else mate in n, else the phase of the game."""
    telling = sorted(set(themes) - _GENERAL, key=lambda theme: (theme.startswith("mateIn"), theme))
    return next((theme for theme in (*telling, *_PHASES) if theme in themes), "other")


def same_position(fen: str) -> str:
    """The position without its move counters: what makes two puzzles the same."""
    return " ".join(fen.split()[:4])


def _identity(row: Row) -> str:
    return f"{same_position(row.text('FEN'))} {row.words('Moves')[:1]}"


def _question(board: chess.Board, pgn: str, *, mate: bool) -> str:
    """The task in words: the position as FEN, whose move it is, and the game so far where there is one."""
    side = "White" if board.turn else "Black"
    goal = f"{side} can give checkmate in one move. Which move?" if mate else f"Which move is best for {side}?"
    lines = (
        "Here is a chess position.",
        f"FEN: {board.fen()}",
        f"To move: {side}",
        pgn and f"Game so far: {pgn}",
        goal,
    )
    return "\n".join(line for line in lines if line)
