"""Cuts the LaTeX or plain text of an answer into tokens, without what only decorates it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evals.graders.algebra.words import CURRENCIES, FUNCTIONS, SPELLED, UNITS, is_word

Kind = Literal["num", "sym", "cmd", "op", "rel", "open", "close", "sep", "word", "unit"]

MAX_CHARS = 2000
"""Characters of an answer that is read; a longer one is none."""
_MAX_TOKENS = 600


class UnreadableError(Exception):
    """This is no formula that is read here; `foreign` where it may be one that another reader knows."""

    def __init__(self, what: str, *, foreign: bool = False) -> None:
        """Keep what stands in the way."""
        super().__init__(what)
        self.foreign = foreign


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an answer.

    Texts by kind: num `12`, `1,234`, `0.5`, `0.(3)`; sym `x`, `alpha`, `inf`; cmd `frac`, `sqrt`, `sin`, ...;
    op `+ - * / ^ _ ! | & cr pm mp cup cap minus`; rel `= != < > <= >= in ~`; open and close `( [ { set angle floor
    ceil` or the environment of a matrix; sep `,` or `;`; word a phrase in small letters; unit `cm`, `%`, `deg`, ...
    """

    kind: Kind
    text: str


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2010\u2011\u2013\u2014\ufe63", "-"),
        **dict.fromkeys("\u2044\u2215", "/"),
        **dict.fromkeys("·⋅∙", "*"),
        **dict.fromkeys("\u2061\u200b\u2062\u2063\ufeff", ""),
        "×": r"\times ",
        "÷": "/",
        "∞": r"\infty ",
        "±": r"\pm ",
        "∓": r"\mp ",
        "≤": r"\le ",
        "⩽": r"\le ",
        "≥": r"\ge ",
        "⩾": r"\ge ",
        "≠": r"\ne ",
        "≈": r"\approx ",
        "∈": r"\in ",
        "∪": r"\cup ",  # noqa: RUF001 - union
        "∩": r"\cap ",
        "∅": r"\emptyset ",
        "√": r"\sqrt ",
        "°": r"^\circ ",
        "º": r"^\circ ",
        "′": "'",  # noqa: RUF001 - prime
        "\u211d": r"\mathbb{R}",
        "\u2124": r"\mathbb{Z}",
        "⟨": r"\langle ",
        "⟩": r"\rangle ",
        "²": "^2",
        "³": "^3",
        "⁴": "^4",
        **{chr(0x2080 + digit): f"_{digit}" for digit in range(10)},
        "½": r"\frac{1}{2}",
        "⅓": r"\frac{1}{3}",
        "⅔": r"\frac{2}{3}",
        "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}",
        **{char: f"\\{name} " for name, char in zip(
            ("alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "mu", "pi", "rho", "sigma", "tau", "phi",
             "omega"), "αβγδεθλμπρστφω", strict=True)},
    }
)  # fmt: skip
_SPACE = r"(?:\\[!,;:> ]|~|\\q?quad(?![a-zA-Z])|\s)"
_GROUPED = r"[0-9]{1,3}(?:(?:\{,\}|,[ ]?\\!|\\[,;:]|[\u00a0\u202f\u2009])[ ]?[0-9]{3})+(?![0-9])(?:\.[0-9]+)?"
_NUMBER = (
    r"[0-9]*\.[0-9]*\\(?:overline|bar)[ ]?\{[0-9]{1,20}\}"
    rf"|{_GROUPED}|[0-9]{{1,3}}(?:[ ][0-9]{{3}})+(?![0-9 /])(?:\.[0-9]+)?"
    r"|[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?"
    r"|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3}(?![\w.^]))?"
    r"(?:(?<=1)st\b|(?<=2)nd\b|(?<=3)rd\b|(?<=[0-9])th\b|:00(?![0-9:])(?:[ ]?[ap]\.?m\b\.?)?)?"
)
_MASTER = re.compile(
    rf"(?P<space>{_SPACE}+)|(?P<row>\\\\(?:\[[^\]]{{0,9}}\])?)"
    r"|(?P<env>\\(?:begin|end)[ ]?\{[a-z]{1,12}\*?\}(?:\{[lcr|]{0,20}\})?)"
    rf"|(?P<num>{_NUMBER})|(?P<run>[A-Za-z]+(?:'(?:s|t|re)(?![A-Za-z])|'{{0,3}}))|(?P<cmd>\\(?:[A-Za-z]+|[^A-Za-z]))"
    r"|(?P<rel><=|>=|!=|:=|[=<>])|(?P<other>.)",
    re.DOTALL,
)
_TEXT = {"text", "textbf", "textit", "textrm", "textnormal", "mbox", "hbox", "mathrm", "mathbf", "mathit", "mathsf",
         "mathbb", "mathcal", "boldsymbol", "operatorname", "underline", "boxed", "fbox", "bm", "emph", "textsf",
         "texttt", "rm", "bf", "it"}  # fmt: skip
_DROPPED = {"left", "right", "displaystyle", "textstyle", "limits", "nolimits", "big", "Big", "bigg", "Bigg", "bigl",
            "bigr", "Bigl", "Bigr", "biggl", "biggr", "Biggl", "Biggr", "mathopen", "mathclose", "(", ")", "[", "]",
            "middle", "noindent", "thinspace", "centering"}  # fmt: skip
_ARGUMENT_DROPPED = {"hspace", "vspace", "phantom", "hphantom", "vphantom", "label", "tag", "mspace"}
_ACCENTS = {"vec", "overrightarrow", "overline", "bar", "hat", "widehat", "tilde", "dot"}
_SAME: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), ("cmd", "frac")),
    **dict.fromkeys(("binom", "dbinom", "tbinom"), ("cmd", "binom")),
    "sqrt": ("cmd", "sqrt"),
    **dict.fromkeys(("cdot", "times", "ast", "*"), ("op", "*")),
    "div": ("op", "/"),
    "pm": ("op", "pm"),
    "mp": ("op", "mp"),
    "cup": ("op", "cup"),
    "cap": ("op", "cap"),
    "setminus": ("op", "minus"),
    "backslash": ("op", "minus"),
    **dict.fromkeys(("vert", "lvert", "rvert", "mid", "|", "Vert", "lVert", "rVert"), ("op", "|")),
    **dict.fromkeys(("le", "leq", "leqslant"), ("rel", "<=")),
    **dict.fromkeys(("ge", "geq", "geqslant"), ("rel", ">=")),
    **dict.fromkeys(("ne", "neq"), ("rel", "!=")),
    "lt": ("rel", "<"),
    "gt": ("rel", ">"),
    "in": ("rel", "in"),
    "approx": ("rel", "~"),
    "to": ("rel", "to"),
    "rightarrow": ("rel", "to"),
    "infty": ("sym", "inf"),
    "{": ("open", "set"),
    "lbrace": ("open", "set"),
    "}": ("close", "set"),
    "rbrace": ("close", "set"),
    "langle": ("open", "angle"),
    "rangle": ("close", "angle"),
    "lfloor": ("open", "floor"),
    "rfloor": ("close", "floor"),
    "lceil": ("open", "ceil"),
    "rceil": ("close", "ceil"),
    "lbrack": ("open", "["),
    "rbrack": ("close", "]"),
    "%": ("unit", "%"),
    "$": ("unit", "dollar"),
    "degree": ("unit", "deg"),
    "circ": ("unit", "circ"),
    "emptyset": ("word", "empty set"),
    "varnothing": ("word", "empty set"),
}
_CHARS: dict[str, tuple[Kind, str]] = {
    **{char: ("op", char) for char in "+-*/^_!|&"},
    **{char: ("sep", char) for char in ",;"},
    **{char: ("open", char) for char in "([{"},
    **dict(zip(")]}", (("close", "("), ("close", "["), ("close", "{")), strict=True)),
    "%": ("unit", "%"),
    ":": ("op", ":"),
}
_GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa"),
    *("lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "ell"),
}


def tokens(text: str) -> list[Token]:
    r"""The tokens of an answer.

    Raises:
        UnreadableError: it is too long, or holds what is not known here.
    """
    if len(text) > MAX_CHARS:
        raise UnreadableError("longer than an answer")
    found = _degrees(list(_lexed(text.translate(_SIGNS), 0)))
    if len(found) > _MAX_TOKENS:
        raise UnreadableError("longer than an answer")
    return found


def closing_brace(text: str, start: int, stop: int) -> int | None:
    r"""Where the brace that opens at `start` closes, before `stop`; `\{` and `\}` are none."""
    level = 0
    for index in range(start, min(stop, len(text))):
        escaped = index > start and text[index - 1] == "\\"
        level += 0 if escaped else {"{": 1, "}": -1}.get(text[index], 0)
        if level == 0:
            return index
    return None


def _lexed(text: str, depth: int) -> Iterator[Token]:
    position = 0
    while match := _MASTER.match(text, position):
        position = match.end()
        if match["cmd"]:
            made, position = _command(match["cmd"][1:], text, position, depth)
            yield from made
        elif not match["space"]:
            yield from _plain(match)


def _plain(match: re.Match[str]) -> list[Token]:
    if match["row"]:
        return [Token("op", "cr")]
    if match["env"]:
        name = re.sub(r"\{[lcr|]{0,20}\}$", "", match["env"]).split("{")[1].rstrip("*}")
        return [Token("open" if "begin" in match["env"] else "close", name)]
    if match["num"]:
        return [Token("num", _number(match["num"]))]
    if match["run"]:
        following = match.string[match.end() : match.end() + 4].lstrip()[:1]
        return _letters(match["run"], following)
    if match["rel"]:
        return [Token("rel", "=" if match["rel"] == ":=" else match["rel"])]
    return _char(match["other"])


def _number(text: str) -> str:
    """Its digits, with plain commas as they are and a period in parentheses."""
    text = re.sub(r"st|nd|rd|th|:00.*", "", text)
    repeated = re.sub(r"\\(?:overline|bar)[ ]?\{([0-9]+)\}", r"(\1)", text)
    return repeated if re.fullmatch(r"[0-9,.]+", repeated) else re.sub(r"[^0-9.()eE+-]", "", repeated)


def _char(char: str) -> list[Token]:
    if char in CURRENCIES:
        return [Token("unit", CURRENCIES[char])]
    if char in "$`'\"":
        return []
    if char in _CHARS:
        return [Token(*_CHARS[char])]
    if char in ".?…":
        return [Token("word", ".")]
    raise UnreadableError(f"the sign {char!r}")


def _letters(run: str, following: str) -> list[Token]:
    """A run of letters: a function, a spelled sign, a word, or one symbol a letter."""
    if run in {"min", "sec"} and (not following or following in ".,;)$\\"):
        return [Token("unit", UNITS[run])]
    name = run.rstrip("'")
    primes = run[len(name) :]
    small = name.lower()
    if name in SPELLED:
        kind, text = SPELLED[name]
        return [Token(kind, text)]
    if name in FUNCTIONS:
        return [Token("cmd", FUNCTIONS[name])]
    if small in UNITS and len(name) > 1:
        return [Token("unit", UNITS[small])]
    if is_word(name):
        return [Token("word", small)]
    letters = re.sub("[^A-Za-z]", "", name)
    return [Token("sym", letter) for letter in letters[:-1]] + [Token("sym", letters[-1] + primes)]


def _command(name: str, text: str, position: int, depth: int) -> tuple[list[Token], int]:
    """The tokens of a command and where the text goes on."""
    if name in _TEXT or name in _ACCENTS:
        inside, position = _argument(text, position)
        return (_accented(name, inside) if name in _ACCENTS else _wrapped(name, inside, depth)), position
    if name in _ARGUMENT_DROPPED:
        return [], _argument(text, position)[1]
    if name in _DROPPED:
        dot = name in {"left", "right"} and text[position : position + 1] == "."
        return [], position + dot
    if name in _SAME:
        return [Token(*_SAME[name])], position
    return [_named(name)], position


def _named(name: str) -> Token:
    if name in FUNCTIONS:
        return Token("cmd", FUNCTIONS[name])
    if name in SPELLED:
        return Token(*SPELLED[name])
    if name.isalpha() and name.lower() in _GREEK:
        return Token("sym", name.removeprefix("var"))
    raise UnreadableError(f"the command {name}", foreign=name.isalpha())


def _accented(name: str, inside: str) -> list[Token]:
    letters = re.sub(r"[^A-Za-z]", "", inside)
    if not letters:
        raise UnreadableError(f"the accent {name}", foreign=True)
    return [Token("sym", letters)]


def _wrapped(name: str, inside: str, depth: int) -> list[Token]:
    """What stands in a font: a word, a unit, a separator, a function, or a formula like any other."""
    text = " ".join(inside.split()).strip()
    if name == "mathbb":
        return [Token("sym", f"set{text}")]
    if name == "operatorname" and text in FUNCTIONS:
        return [Token("cmd", FUNCTIONS[text])]
    if depth > 3:  # noqa: PLR2004 - nobody nests fonts that deeply
        raise UnreadableError("fonts within fonts")
    small = text.strip(" .").lower()
    if small in UNITS and (len(small) > 1 or name in {"text", "mbox", "textrm"}) and small not in SPELLED:
        return [Token("unit", UNITS[small])]
    return list(_lexed(text, depth + 1))


def _argument(text: str, position: int) -> tuple[str, int]:
    """The argument of a command: what braces hold, else one character."""
    while position < len(text) and text[position] in " \n":
        position += 1
    if text[position : position + 1] != "{":
        return text[position : position + 1], position + 1
    closing = closing_brace(text, position, len(text))
    if closing is None:
        raise UnreadableError("an open brace")
    return text[position + 1 : closing], closing + 1


def _degrees(found: list[Token]) -> list[Token]:
    """A raised circle, in braces or not, as one unit."""
    out: list[Token] = []
    for token in found:
        if token.kind == "unit" and token.text == "circ":
            while out and out[-1].text in {"^", "{"} and out[-1].kind in {"op", "open"}:
                out.pop()
            out.append(Token("unit", "deg"))
        elif (token.text == "{" and token.kind == "close" and out and out[-1].text == "deg" and _opened(out) < 1) or (
            token.text in {"C", "F"} and out and out[-1].text == "deg" and token is found[-1]
        ):
            continue
        else:
            out.append(token)
    return out


def _opened(out: list[Token]) -> int:
    return sum({"open": 1, "close": -1}.get(token.kind, 0) for token in out if token.text == "{")
