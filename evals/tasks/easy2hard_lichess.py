"""Mate-in-one puzzles of Easy2Hard-Bench, rated by the players who tried them."""

from __future__ import annotations

from evals.graders.chess_move import read_board
from evals.tasks.hub import Row
from evals.tasks.lichess import MoveTask, motif, same_position
from evals.tasks.stratified import COLUMNS, StratifiedTask
from trinity.errors import DataError
from trinity.types import Item


class Easy2HardLichess(MoveTask, StratifiedTask):
    """E2H-Lichess (Ding et al., arXiv 2409.18433): one move that mates; difficulty is the Glicko-2 rating.

    The options are those of `StratifiedTask`. What is assumed of the hub's rows, none of which is part of this suite:
    `fen` is the position in which `answer_uci` is to be found (the opponent's set-up move has been played), `pgn` the
    game up to it, `tag` the themes as a list or a text. The prompt shows position, side and game, and asks for a mate
    where the answer is one.
    """

    name = "easy2hard_lichess"
    config = "E2H-Lichess"
    columns = (*COLUMNS, "fen", "answer_uci")
    optional = ("pgn", "tag", "puzzle_id")
    licence = "CC-BY-SA-4.0"

    def identity(self, row: Row) -> str:
        """The position."""
        return same_position(row.text("fen"))

    def item(self, row: Row) -> Item:
        """A puzzle; its domain is what its themes say of the mate."""
        try:
            return self.move_item(
                read_board(row.text("fen")),
                row.text("answer_uci"),
                domain=motif(row.words("tag")),
                rating=row.number("rating"),
                puzzle=row.text("puzzle_id", ""),
                pgn=row.text("pgn", ""),
            )
        except DataError as error:
            raise row.error(error) from error
