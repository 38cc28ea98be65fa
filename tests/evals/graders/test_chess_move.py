"""The chess grader: how a move may be written, which moves are right, and what is no answer."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import chess
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evals.graders.chess_move import read_board, read_move, right_moves
from trinity.errors import ConfigError, DataError

PUZZLES = Path(__file__).resolve().parents[4] / "shared" / "data" / "items" / "lichess_puzzles.jsonl"

SCHOLAR = "r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 4 4"
QUEEN = "7k/Q7/6K1/8/8/8/8/8 w - - 0 1"
PROMOTION = "k7/2P5/1K6/8/8/8/8/8 w - - 0 1"
CASTLING = "3k4/8/N3Q3/8/8/8/8/R3K3 w Q - 0 1"
KNIGHTS = "4k3/8/8/8/8/5N2/8/1N2K3 w - - 0 1"
PASSANT = "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2"
PAWNS = "4k3/8/8/8/8/8/3PP3/4K3 w - - 0 1"


@pytest.mark.parametrize(
    "text",
    [
        "Answer: Qxf7#",
        "Answer: Qxf7",
        "Answer: Qf7",
        "Answer: Qxf7++",
        "Answer: Qxf7!? (winning)",
        "Answer: Q x f7",
        "Answer: qxf7#",
        "Answer: Qh5xf7#",
        "Answer: Qh5-f7",
        "Answer: h5f7",
        "Answer: h5-f7",
        "Answer: h5 - f7",
        "Answer: h5→f7",
        "Answer: h5 -> f7",
        r"Answer: $h5 \to f7$",
        "Answer: h5 to f7",
        "Answer: h5 f7",
        "Answer: Queen to f7",
        "Answer: queen takes on f7",
        "Answer: Queen h5 captures the pawn on f7",
        "Answer: Queen f7",
        "I play Queen to f7.",
        "Answer: Qxf7#, not d4",
        "Answer: Qxf7 not Nf3",
        "Answer: Qxf7 instead of Nf3 or Nc3",
        "Answer: not Nf3 but Qxf7",
        "Qxf7#\nI would not play Nf3 here.",
        "Answer: H5F7",
        "Answer: 4. Qxf7#",
        "Answer: 4.Qxf7# 1-0",
        "Answer: 4... Qxf7#",
        "Answer: ♕xf7#",
        "Answer: **Qxf7#**",
        "**Answer:** `Qxf7#`",
        "Answer: <b>Qxf7#</b>",
        "Answer: $\\text{Qxf7\\#}$",
        "Answer: $Q\\times f7\\#$",
        "Answer: \\(\\mathrm{Qxf7}\\)",
        "\\boxed{Qxf7\\#}",
        "\\boxed{\\text{Qxf7}\\#}",
        "The answer is Qxf7.",
        "Answer: Qxf7# (h5f7)",
        "Answer: Qxf7#, for the king has neither e7 nor f8",
        "Answer: White plays Qxf7# and mates",
        "Answer: <move>\nAnswer: Qxf7#",
        "Answer:\n\nQxf7#",
        "Answer: d4\nNo, better:\nAnswer: Qxf7#",
        "Qxf7#",
        "After d4 nothing happens.\nI play Qxf7#.\nThe king on e8 can not take.",
    ],
)
def test_a_move_may_be_written_in_many_ways(text: str) -> None:
    """SAN and UCI with numbers, marks, figurines, LaTeX, Markdown or words around them are one move."""
    assert read_move(text, SCHOLAR) == "h5f7"


@pytest.mark.parametrize(
    ("fen", "text", "expected"),
    [
        (PROMOTION, "c8=Q#", "c7c8q"),
        (PROMOTION, "c8Q", "c7c8q"),
        (PROMOTION, "c8(Q)", "c7c8q"),
        (PROMOTION, "c8/R", "c7c8r"),
        (PROMOTION, "c8 = Q", "c7c8q"),
        (PROMOTION, "c8=Queen", "c7c8q"),
        (PROMOTION, "c8 (Knight)", "c7c8n"),
        (PROMOTION, "c7 - c8 = Q", "c7c8q"),
        (PROMOTION, "c7c8=rook", "c7c8r"),
        (PROMOTION, "c8 promoting to a queen", "c7c8q"),
        (CASTLING, "castles queenside", "e1c1"),
        (CASTLING, "Queen-side castling", "e1c1"),
        (CASTLING, "castle long", "e1c1"),
        (PASSANT, "exd6ep", "e5d6"),
        (PASSANT, "exd6e.p.", "e5d6"),
        (PASSANT, "pawn takes d6", "e5d6"),
        (PASSANT, "Pexd6", "e5d6"),
        (PAWNS, "Pe4", "e2e4"),
        (PAWNS, "Pe2-e4", "e2e4"),
        (PROMOTION, "c8=n", "c7c8n"),
        (PROMOTION, "c7c8q", "c7c8q"),
        (PROMOTION, "c7-c8=Q", "c7c8q"),
        (PROMOTION, "c7c8Q", "c7c8q"),
        (CASTLING, "O-O-O#", "e1c1"),
        (CASTLING, "0-0-0", "e1c1"),
        (CASTLING, "o-o-o", "e1c1"),
        (CASTLING, "O\u2013O\u2013O", "e1c1"),
        (CASTLING, "e1c1", "e1c1"),
        (KNIGHTS, "Nbd2", "b1d2"),
        (KNIGHTS, "N3d2", "f3d2"),
        (KNIGHTS, "Nf3d2", "f3d2"),
        (PASSANT, "exd6 e.p.", "e5d6"),
        (PASSANT, "ed6", "e5d6"),
        (PASSANT, "e5xd6", "e5d6"),
        (PAWNS, "e4", "e2e4"),
        (PAWNS, "E4", "e2e4"),
        (PAWNS, "pawn to e4", "e2e4"),
        (PAWNS, "e2-e4", "e2e4"),
        (PAWNS, "**e4**!", "e2e4"),
    ],
)
def test_special_moves(fen: str, text: str, expected: str) -> None:
    """Promotion, castling, en passant, pawn moves and needed origins are read, declared or standing alone."""
    assert read_move(f"Answer: {text}", fen) == read_move(f"I looked at all.\n{text}", fen) == expected


@pytest.mark.parametrize(
    ("fen", "text", "expected"),
    [
        (SCHOLAR, "Qh8", "Qh8 (illegal)"),
        (SCHOLAR, "Qxh8#", "Qh8 (illegal)"),
        (SCHOLAR, "e2e4", "e2e4 (illegal)"),
        (SCHOLAR, "O-O-O", "O-O-O (illegal)"),
        (PROMOTION, "c8", "c8 (illegal)"),
        (KNIGHTS, "Nd2", "Nd2 (ambiguous)"),
    ],
)
def test_a_move_that_can_not_be_played_is_an_answer(fen: str, text: str, expected: str) -> None:
    """An illegal or ambiguous move is read, says so, and is no legal move in UCI."""
    assert read_move(f"Answer: {text}", fen) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I do not know.",
        "Answer: none",
        "Answer: <move>",
        "I end with a line `Answer: <move>`, the move in SAN or UCI.",
        "Answer: Qxf7 or d4",
        "Answer: d4 or Qxf7",
        "Answer: d4/d3",
        "Answer: d4, d3",
        "Answer: Qxf7# Ke7",
        "Answer: Qxf7 or Qh8",
        "Answer: x9y9",
        "Answer: not Qxf7",
        "Answer: I would not play Qxf7",
        "I don't play Qxf7.",
        "Answer: not Qxf7 or d4",
        "Answer: not d4",
        "Answer: 0-0-0-0",
        "Answer: d2-d4-d5",
        "Answer: Queen takes f7 or d4",
        "The queen on h5 goes f3 to f2.",
        "The square d4 is weak.",
        "The king on e8 looks at f7 and e7.",
        f"FEN: {SCHOLAR}",
    ],
)
def test_no_move_or_two_are_no_answer(text: str) -> None:
    """Text without a move, squares in prose, an echo of the form and two different moves are no answer."""
    assert read_move(text, SCHOLAR) is None


@pytest.mark.parametrize(
    ("fen", "solution", "expected"),
    [
        (SCHOLAR, "h5f7", ("h5f7",)),
        (SCHOLAR, "d2d4", ("d2d4", "h5f7")),
        (QUEEN, "Qg7#", ("a7a8", "a7b8", "a7g7", "a7h7")),
        (PROMOTION, "c7c8q", ("c7c8q", "c7c8r")),
        (CASTLING, "O-O-O", ("a1d1", "e1c1")),
        (PAWNS, "e4", ("e2e4",)),
    ],
)
def test_every_mate_is_right(fen: str, solution: str, expected: tuple[str, ...]) -> None:
    """Right are the solution and all moves that mate at once."""
    assert right_moves(fen, solution) == expected


def test_a_position_that_is_none_is_named() -> None:
    """A text that is no FEN, and a solution that can not be played, are DataErrors that show them."""
    with pytest.raises(DataError, match="'8/8 w' is no chess position"):
        read_board("8/8 w")
    with pytest.raises(DataError, match="'a1a9' is no move in the position 7k"):
        right_moves(QUEEN, "a1a9")


@pytest.mark.parametrize(
    ("fen", "fault"),
    [
        ("kkkkkkkk/8/8/8/8/8/8/K7 w - - 0 1", "too many kings"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "no white king, no black king, empty"),
        ("7k/8/6K1/8/8/8/8/Q7 w - - 0 1", "opposite check"),
        ("4k3/8/8/8/8/8/8/4K3 w KQ - 0 1", "bad castling rights"),
        ("1rk1r3/8/8/8/8/8/8/1RK1R3 w KQkq - 0 1", "castling rights of Chess960; only standard chess is read"),
        ("1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1", "castling rights of Chess960; only standard chess is read"),
    ],
)
def test_a_position_against_the_rules_is_refused(fen: str, fault: str) -> None:
    """What no game of standard chess reaches is a DataError that says why."""
    with pytest.raises(DataError, match=rf"is no legal chess position \({fault}\)$"):
        read_board(fen)


def test_a_null_move_is_no_solution() -> None:
    """The text by which chess programs pass is no move of a puzzle."""
    with pytest.raises(DataError, match="'0000' is no move"):
        right_moves(QUEEN, "0000")


def test_two_pawns_that_can_take_leave_the_move_open() -> None:
    """A pawn that takes in words is read only where one pawn can."""
    assert read_move("Answer: pawn takes d5", "4k3/8/8/3p4/2P1P3/8/8/4K3 w - - 0 1") == "d5 (illegal)"


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing chess library is a ConfigError with the command that brings it."""
    monkeypatch.setitem(sys.modules, "chess", None)
    with pytest.raises(ConfigError, match=r"pip install 'trinity-suite\[chess\]'"):
        read_move("Answer: e4", PAWNS)


@example(4552, "Answer: {}")  # Black mates before the twelfth half-move
@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(["Answer: {}", "{}", "\\boxed{{{}}}", "1. {}"]))
def test_every_legal_move_is_read_in_both_notations(seed: int, form: str) -> None:
    """Whatever can be played a few moves into a game is read from its SAN and its UCI, as the same move."""
    board = chess.Board()
    for step in range(12):
        moves = sorted(board.legal_moves, key=str)
        if not moves:  # mated in a few moves
            break
        board.push(moves[seed // 7**step % len(moves)])
    for move in board.legal_moves:
        written = (board.san(move), board.lan(move), board.uci(move))
        assert {read_move(form.format(text), board.fen()) for text in written} == {move.uci()}


@given(st.text(alphabet="abcdefgh12345678KQRBNx+#=-O0.,/() \n\\{}$Answer:or", max_size=120))
def test_any_text_gets_a_move_or_none(text: str) -> None:
    """No text makes the grader raise, and what it calls a move is legal or says that it is not."""
    move = read_move(text, SCHOLAR)
    legal = {legal.uci() for legal in chess.Board(SCHOLAR).legal_moves}
    assert move is None or move in legal or move.endswith((" (illegal)", " (ambiguous)"))


@pytest.mark.parametrize(
    "piece",
    [
        "e4 ",
        "e4 or ",
        "Nf3 ",
        "e2e4",
        "Qx",
        "(",
        "( ",
        "<",
        "\\times",
        "$",
        "\n",
        " ",
        "a",
        "1.",
        "Answer: e4\n",
        "O-",
        "e4 to ",
        "not ",
        "Knight ",
    ],
)
def test_a_megabyte_is_read_fast(piece: str) -> None:
    """One megabyte of any hostile repetition takes less than two seconds."""
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    read_move(text, PAWNS)
    read_move(f"Answer: {text}", PAWNS)
    assert time.process_time() - start < 2


@pytest.mark.shared_data
@pytest.mark.skipif(not PUZZLES.exists(), reason="the shared puzzles are not here")
def test_a_thousand_puzzles() -> None:
    """In each of 1000 real puzzles the solution and every mate are right in SAN and UCI, and no other legal move is."""
    rows = [json.loads(line) for line in PUZZLES.read_text(encoding="utf-8").splitlines()]
    sound = sum(_graded_right(row["FEN"], *row["Moves"].split()[:2]) for row in rows)
    assert (sound, len(rows)) == (1000, 1000)


def _graded_right(before: str, setup: str, solution: str) -> bool:
    board = chess.Board(before)
    board.push_uci(setup)
    right = right_moves(board.fen(), solution)
    for move in board.legal_moves:
        san = board.san(move)
        fits = move.uci() == solution or san.endswith("#")
        if {read_move(f"Answer: {text}", board.fen()) in right for text in (san, move.uci())} != {fits}:
            return False
    return True
