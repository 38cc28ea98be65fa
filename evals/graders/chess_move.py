"""Reads the chess move that a text gives as its answer, in SAN or UCI, and says which moves are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evals.graders.answer_line import declared
from trinity.errors import ConfigError, DataError

if TYPE_CHECKING:
    import chess

VERSION = "chess_move/2"

_WINDOW = 1000
"""Characters that are read of a declared answer from its start, and of any other text from its end."""
_LINES = 8

_FIGURES = dict(zip("♔♕♖♗♘♚♛♜♝♞", "KQRBNKQRBN", strict=True))
_PLAIN = str.maketrans(
    {
        **_FIGURES,
        **dict.fromkeys("♙♟\ufe0e\ufe0f"),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212→⇒", "-"),
        "×": "x",
    }
)
_TIMES = re.compile(r"\\times(?![a-zA-Z])[ ]?")
_ARROW = re.compile(r"\\(?:to|rightarrow|Rightarrow)(?![a-zA-Z])[ ]?|[-=]{1,2}>")
_DECORATION = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mathsf|boxed)\b|\\[#+\-=,;:! ()\[\]]|[${}*_`~]|<[^<>]{0,40}>"
)
_SQUARE = "[a-hA-H][1-8]"
_PIECE = "(?:(?i:queen|rook|bishop|knight)|[qrbnQRBN])(?![A-Za-z0-9])"
_MADE = rf"(?:[ ]?[=/(][ ]?|[ ]promot(?:es|ing)[ ](?:in)?to[ ](?:an?[ ])?)?{_PIECE}"
_CASTLES = (
    "(?:king|queen)[ -]?side[ ]castl(?:es?|ing)"
    "|castl(?:es?|ing)[ ](?:to[ ]the[ ])?(?:(?:king|queen)[ -]?side|short|long)"
)
_VERB = "(?:(?:moves|goes)[ ])?(?:to[ ]|-[ ]?|x[ ]?|(?:takes|captures)[ ](?:(?:the[ ])?[a-z]{4,6}[ ])?(?:on[ ])?)"
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?<![A-Ha-h][1-8]-)(?<![0Oo]-)(?:"
    r"(?P<castle>[0Oo]-[0Oo](?:-[0Oo])?)"
    rf"|(?P<wing>(?i:{_CASTLES}))"
    rf"|(?P<uci>[a-h][1-8]-?[a-h][1-8]|[A-H][1-8][A-H][1-8])(?P<uci_made>{_MADE})?"
    rf"|(?P<linked>(?P<from>{_SQUARE})(?:[ ]{{1,2}}(?:-[ ]{{0,2}}|to[ ]|x[ ])?|-[ ]{{1,2}}){_SQUARE})"
    rf"(?P<linked_made>{_MADE})?"
    r"|(?P<piece>[KQRBNkqrn][a-h]?[1-8]?(?:-|[ ]?x[ ]?)?[a-h][1-8])"
    rf"|(?P<named>(?P<name>(?i:king|queen|rook|bishop|knight|pawn))[ ](?:(?:on|from)[ ])?(?:(?P<origin>{_SQUARE})[ ])?"
    rf"(?P<verb>{_VERB})?(?P<target>{_SQUARE}))(?P<named_made>{_MADE})?"
    r"|(?P<pawn>P?[a-h][1-8]?[-x][a-h][1-8]|[a-h][a-h][1-8]|P[a-h][1-8](?:[a-h][1-8])?)"
    rf"(?P<taken>{_MADE})?"
    rf"|(?P<square>{_SQUARE})(?P<made>{_MADE})?"
    r")(?:e\.?p\.?)?(?![A-Za-z0-9]|-[A-Ha-h][1-8]|-[0Oo](?![a-z]))"
)
_PROMOTIONS = ("uci_made", "linked_made", "named_made", "taken", "made")
_REMARK = re.compile(rf"(?<![a-h][1-8])\((?!{_PIECE}\))[^()\n]{{0,200}}\)")
_START = re.compile(
    r"\W{0,12}(?:(?:the|best|move|is|white|black|i|would|plays?|pawn|to)\W{1,6}){0,8}"
    r"(?:[0-9]{1,3}[ ]?\.{1,3}[ ]?)?\W{0,6}",
    re.IGNORECASE,
)
_END = re.compile(r"[\W_]{0,12}(?:e\.?p\.?|mate|checkmate)?\W{0,6}", re.IGNORECASE)
_JOINT = re.compile(r"[+#!?.)]{0,4}[ \t]{0,4}(?:or|and|nor|/|,|;|&)[ \t]{0,4}", re.IGNORECASE)
_NEGATION = re.compile(
    r"(?:\b(?:not|never|nor|cannot|avoid(?:ing)?|instead[ ]of|rather[ ]than)|n['’]t)"
    r"(?:\W{1,3}(?:to|the|an?|be|is|play|playing|move|moving|choose|with|by|go|for|my|answer)){0,4}[\W_]{0,6}$",
    re.IGNORECASE,
)
_BEFORE = 80
"""Characters before a move in which a negation of it is looked for."""


def read_move(text: str, fen: str) -> str | None:
    """The move that `text` gives for the position, in UCI; None = no answer.

    The declared answer counts (see `answer_line.declared`); where none is declared, the last line with a move. A move
    is SAN (`Nf3`, `exd8=Q+`, `0-0`) or UCI (`g1f3`), with or without move number, check, mate and other marks, LaTeX
    or Markdown around it, or words for them (`Knight to f3`, `a8=Queen`); two squares side by side (`g1 f3`,
    `g1 to f3`) and, in an undeclared answer, words are a move only where the position allows it. A bare square (`e4`)
    is a pawn's move only at the head of a declared answer, as all of an undeclared line, or joined to another move.
    A move that is negated (`not Nf3`, `instead of Nf3`) does not count. Two different moves are no answer: which one
    was meant would be the grader's guess. A move that the position does not allow is an answer, and equals no right
    one: `Qh8 (illegal)`, `Nd2 (ambiguous)`.

    Raises:
        ConfigError: the chess library is not installed.
        DataError: `fen` is no position.
    """
    board = read_board(fen)
    found = {_resolved(move, board) for move in _declared_moves(text, board)}
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
            if found := read(move.strip()):
                return found
        except ValueError:
            continue
    raise DataError(f"{move[:20]!r} is no move in the position {board.fen()}")


def read_board(fen: str) -> chess.Board:
    """The position.

    Raises:
        ConfigError: the chess library is not installed.
        DataError: it is no position of standard chess that a game can reach, or has castling rights of Chess960.
    """
    try:
        import chess
    except ImportError as error:
        raise ConfigError("chess tasks need the chess library: pip install 'trinity-suite[chess]'") from error
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise DataError(f"{fen[:100]!r} is no chess position ({str(error)[:100]})") from error
    if not board.is_valid():
        raise DataError(f"{fen[:100]!r} is no legal chess position ({_fault(board)})")
    return board


def mates(board: chess.Board, move: chess.Move) -> bool:
    """Whether a legal move gives checkmate at once."""
    board.push(move)
    mated = board.is_checkmate()
    board.pop()
    return mated


def _fault(board: chess.Board) -> str:
    """What is against the rules in a position."""
    import chess

    status = board.status()
    if status == chess.STATUS_BAD_CASTLING_RIGHTS and board.has_chess960_castling_rights():
        return "castling rights of Chess960; only standard chess is read"
    return ", ".join(str(flag.name).lower().replace("_", " ") for flag in chess.Status if flag & status)


def _declared_moves(text: str, board: chess.Board) -> list[str]:
    answer = declared(text)
    if answer is not None:
        line = _plain(answer[:_WINDOW])
        return _moves(_REMARK.sub(" ", line), board) or _moves(line, board)
    lines = (_moves(_plain(line), board, alone=True) for line in reversed(text[-_WINDOW:].rsplit("\n", _LINES)))
    return next((moves for moves in lines if moves), [])


def _plain(line: str) -> str:
    """`line` with figurines as letters, arrows as hyphens, and without LaTeX and Markdown."""
    return _DECORATION.sub("", _TIMES.sub("x", _ARROW.sub("-", line.translate(_PLAIN))))


def _moves(line: str, board: chess.Board, *, alone: bool = False) -> list[str]:
    """The moves of a line as plain SAN or UCI; `alone`: a bare square counts only where the line holds nothing else."""
    found: list[str] = []
    end, negated = 0, False
    for token in _tokens(line, board, alone=alone):
        gap = line[end : token.start()]
        joined = _JOINT.fullmatch(gap) is not None
        if _is_bare(token):
            head = _START.fullmatch(gap) and not (alone and not _END.fullmatch(line, token.end()))
            if not (joined if end else head):
                continue
        negated = _NEGATION.search(gap[-_BEFORE:]) is not None or (negated and joined)
        end = token.end()
        if not negated:
            found.append(_written(token, board))
    return found


def _tokens(line: str, board: chess.Board, *, alone: bool) -> Iterator[re.Match[str]]:
    """What is written as a move; what may be prose as well, only where the position allows it."""
    start = 0
    while token := _TOKEN.search(line, start):
        start = token.end()
        doubtful = token["linked"] or token["wing"] or (token["named"] and (alone or not token["verb"]))
        if not doubtful or _resolved(_written(token, board), board)[-1] != ")":
            yield token
        elif token["linked"] and (first := _TOKEN.match(line, token.start(), token.end("from"))):
            start = first.end()
            yield first


def _is_bare(token: re.Match[str]) -> bool:
    return token["square"] is not None and token["made"] is None


def _written(token: re.Match[str], board: chess.Board) -> str:
    """The token as `chess` reads it."""
    if token["castle"]:
        return token["castle"].upper().replace("0", "O")
    if token["wing"]:
        return "O-O-O" if re.search("queen|long", token["wing"], re.IGNORECASE) else "O-O"
    made = next((_letter(token[group]) for group in _PROMOTIONS if token[group]), "")
    if token["uci"] or token["linked"]:
        return "".join(re.findall(_SQUARE, token["uci"] or token["linked"])).lower() + made.lower()
    if token["piece"]:
        return token["piece"][0].upper() + re.sub("[-x ]", "", token["piece"][1:])
    san = _spelt(token, board) if token["named"] else (token["pawn"] or token["square"].lower()).lstrip("P")
    return san + (f"={made}" if made else "")


def _letter(piece: str) -> str:
    """The letter of a piece that ends `piece`, by name or letter."""
    word = re.findall("[A-Za-z]+", piece)[-1].upper()
    return "N" if word == "KNIGHT" else str(word[0])


def _spelt(token: re.Match[str], board: chess.Board) -> str:
    """SAN of a move in words; a pawn that takes gets the file from which one can."""
    letter, origin, target = _letter(token["name"]), (token["origin"] or "").lower(), token["target"].lower()
    if letter != "P":
        return f"{letter}{origin}{target}"
    takes = not origin and re.match("takes|captures|x", token["verb"] or "")
    files = {move.uci()[0] for move in board.legal_moves if takes and _takes(board, move, target)}
    return f"{files.pop()}x{target}" if len(files) == 1 else f"{origin}{target}"


def _takes(board: chess.Board, move: chess.Move, target: str) -> bool:
    """Whether a pawn takes on the square."""
    return move.uci()[2:4] == target and board.is_capture(move) and not board.san(move)[0].isupper()


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
