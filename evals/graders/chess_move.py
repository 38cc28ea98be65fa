"""Reads the chess move that a text gives as its answer, in SAN or UCI, and says which moves are right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from evals.graders.answer_line import declared
from trinity.errors import ConfigError, DataError

if TYPE_CHECKING:
    import chess

VERSION = "chess_move/1"

_WINDOW = 1000
"""Characters that are read of a declared answer from its start, and of any other text from its end."""
_LINES = 8

_FIGURES = dict(zip("♔♕♖♗♘♚♛♜♝♞", "KQRBNKQRBN", strict=True))
_PLAIN = str.maketrans(
    {**_FIGURES, **dict.fromkeys("♙♟\ufe0e\ufe0f"), **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"), "×": "x"}
)
_TIMES = re.compile(r"\\times(?![a-zA-Z])[ ]?")
_DECORATION = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mathsf|boxed)\b|\\[#+\-=,;:! ()\[\]]|[${}*_`~]|<[^<>]{0,40}>"
)
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?P<castle>[0Oo]-[0Oo](?:-[0Oo])?)"
    r"|(?P<uci>[a-h][1-8]-?[a-h][1-8]=?[qrbnQRBN]?|[A-H][1-8][A-H][1-8][QRBN]?)"
    r"|(?P<piece>[KQRBNkqrn][a-h]?[1-8]?(?:-|[ ]?x[ ]?)?[a-h][1-8])"
    r"|(?P<pawn>[a-h][1-8]?[-x][a-h][1-8]|[a-h][a-h][1-8])(?P<taken>[=/(]?[qrbnQRBN](?![a-z0-9]))?"
    r"|(?P<square>[a-hA-H][1-8])(?P<made>[=/(]?[qrbnQRBN](?![a-z0-9]))?"
    r")(?![A-Za-z0-9])"
)
_REMARK = re.compile(r"(?<![a-h][1-8])\([^()\n]{0,200}\)")
_START = re.compile(
    r"\W{0,12}(?:(?:the|best|move|is|white|black|i|would|plays?|pawn|to)\W{1,6}){0,8}"
    r"(?:[0-9]{1,3}[ ]?\.{1,3}[ ]?)?\W{0,6}",
    re.IGNORECASE,
)
_END = re.compile(r"[\W_]{0,12}(?:e\.?p\.?|mate|checkmate)?\W{0,6}", re.IGNORECASE)
_JOINT = re.compile(r"[+#!?.)]{0,4}[ \t]{0,4}(?:or|and|/|,|;|&)[ \t]{0,4}", re.IGNORECASE)


def read_move(text: str, fen: str) -> str | None:
    """The move that `text` gives for the position, in UCI; None = no answer.

    The declared answer counts (see `answer_line.declared`); where none is declared, the last line with a move. A move
    is SAN (`Nf3`, `exd8=Q+`, `0-0`) or UCI (`g1f3`), with or without move number, check, mate and other marks, LaTeX
    or Markdown around it. A bare square (`e4`) is a pawn's move only at the head of a declared answer, as all of an
    undeclared line, or joined to another move. Two different moves are no answer: which one was meant would be the
    grader's guess. A move that the position does not allow is an answer, and equals no right one: `Qh8 (illegal)`,
    `Nd2 (ambiguous)`.

    Raises:
        ConfigError: the chess library is not installed.
        DataError: `fen` is no position.
    """
    board = read_board(fen)
    found = {_resolved(move, board) for move in _declared_moves(text)}
    return found.pop() if len(found) == 1 else None


def right_moves(fen: str, solution: str) -> tuple[str, ...]:
    """The moves in UCI that count as right: the solution and every move that mates at once, sorted.

    Raises:
        ConfigError: the chess library is not installed.
        DataError: `fen` is no position, or it does not allow `solution` (UCI or SAN).
    """
    board = read_board(fen)
    mating = {move.uci() for move in board.legal_moves if mates(board, move)}
    return tuple(sorted({legal_move(board, solution).uci(), *mating}))


def legal_move(board: chess.Board, move: str) -> chess.Move:
    """The move that UCI or SAN names.

    Raises:
        DataError: the position does not allow it.
    """
    for read in (board.parse_uci, board.parse_san):
        try:
            return read(move.strip())
        except ValueError:
            continue
    raise DataError(f"{move[:20]!r} is no move in the position {board.fen()}")


def read_board(fen: str) -> chess.Board:
    """The position.

    Raises:
        ConfigError: the chess library is not installed.
        DataError: it is no position.
    """
    try:
        import chess
    except ImportError as error:
        raise ConfigError("chess tasks need the chess library: pip install 'trinity-suite[chess]'") from error
    try:
        return chess.Board(fen)
    except ValueError as error:
        raise DataError(f"{fen[:100]!r} is no chess position ({error})") from error


def mates(board: chess.Board, move: chess.Move) -> bool:
    """Whether a legal move gives checkmate at once."""
    board.push(move)
    mated = board.is_checkmate()
    board.pop()
    return mated


def _declared_moves(text: str) -> list[str]:
    answer = declared(text)
    if answer is not None:
        line = _plain(answer[:_WINDOW])
        return _moves(_REMARK.sub(" ", line)) or _moves(line)
    lines = (_moves(_plain(line), alone=True) for line in reversed(text[-_WINDOW:].rsplit("\n", _LINES)))
    return next((moves for moves in lines if moves), [])


def _plain(line: str) -> str:
    """`line` with figurines as letters and without LaTeX and Markdown."""
    return _DECORATION.sub("", _TIMES.sub("x", line.translate(_PLAIN)))


def _moves(line: str, *, alone: bool = False) -> list[str]:
    """The moves of a line as plain SAN or UCI; `alone`: a bare square counts only where the line holds nothing else."""
    found: list[str] = []
    end = 0
    for token in _TOKEN.finditer(line):
        if _is_bare(token):
            gap = line[end : token.start()]
            head = _START.fullmatch(gap) and not (alone and not _END.fullmatch(line, token.end()))
            if not (_JOINT.fullmatch(gap) if found else head):
                continue
        found.append(_written(token))
        end = token.end()
    return found


def _is_bare(token: re.Match[str]) -> bool:
    return token["square"] is not None and token["made"] is None


def _written(token: re.Match[str]) -> str:
    """The token as `chess` reads it."""
    if token["castle"]:
        return token[0].upper().replace("0", "O")
    if token["uci"]:
        return token[0].lower().replace("-", "").replace("=", "")
    if token["piece"]:
        return token[0][0].upper() + re.sub("[-x ]", "", token[0][1:])
    promoted = token["taken"] or token["made"]
    return (token["pawn"] or token["square"].lower()) + (f"={promoted[-1].upper()}" if promoted else "")


def _resolved(move: str, board: chess.Board) -> str:
    """The move as UCI, or what is wrong with it."""
    import chess

    try:
        return board.parse_uci(move).uci()
    except ValueError:
        pass
    try:
        return board.parse_san(move).uci()
    except chess.AmbiguousMoveError:
        return f"{move} (ambiguous)"
    except ValueError:
        return f"{move} (illegal)"
