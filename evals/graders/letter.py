"""Reads the option letter that a text gives as its answer to a multiple-choice question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from string import ascii_uppercase
from unicodedata import normalize

from evals.graders.answer_line import COLON, declared
from trinity.canonical import folded

VERSION = "letter/3"

_WINDOW = 1000
"""Characters that are read of a declared answer from its start."""
_TAIL = 20_000
"""Characters of a text's end in which a sentence that names the answer is looked for."""
_SHORT = 40
"""An `Answer:` line of no more characters that names no option is a refusal, and nothing else is looked for; a first
line of more characters is no option."""

_MARKS = " \t\r*_`'\"“”«».!,;:()[]<>{}$"
_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_CONTROL = re.compile(r"<\|[a-z_]{1,24}\|>")
_TEX = re.compile(r"\\(?:boxed|text|textbf|textit|mathrm|mathbf|mbox|operatorname)[ ]?(?=\{)|\\[()\[\]]|\$")

# Every gap is bounded, so that a hostile text costs time linear in its length.
_NEXT_QUESTION = re.compile(
    r"^[ \t*#]{0,6}(?:question|q|human|user)[ ]?\d{0,3}[ *]{0,3}:", re.IGNORECASE | re.MULTILINE
)
_COLON = re.compile(COLON, re.IGNORECASE)
_OPTION_LIST = re.compile(r"[ \t*_]{0,6}\n[\s(*]{0,6}A[).:][^\n]{0,500}\n[\s(*]{0,6}B[).:]")
_OPTION_ROW = re.compile(r"[\s(*]{0,6}A[).:][ ].{1,300}?[ (*]B[).:][* ].{1,300}?[ (*]C[).:][* ]")
_JSON = re.compile(
    r"\\?[\"'](?:(?:final|correct|my)?[ _]?answer(?:_letter)?|(?:correct|selected|chosen)[ _]?option"
    r"|(?:(?:correct|selected|chosen)[ _]?)?choice)\\?[\"']\s{0,4}:\s{0,4}"
    r"(?:\"((?:[^\"\\]|\\.){0,1000})\"|\\\"([^\"\\]{0,1000})\\\"|'([^'\n]{0,1000})'|(\[[^\[\]]{0,400}\])"
    r"|([^\s\\\"',}\]]{1,40}))",
    re.IGNORECASE,
)

_OPEN = r"[*_`'\"“«(\[<{$ ]{0,8}"
# A letter of an alphabet with spaces between words goes on in a word; a Chinese, Japanese or Korean sign does not.
_WORD = "A-Za-z0-9À-ɏͰ-ԯ"
_BEFORE = rf"{_OPEN}(?<![{_WORD}])"
_BEHIND = rf"(?!['’_]?[{_WORD}])"
_CALLED = r"(?:the )?(?:(?:option|choice|answer|letter) ?)?"
_LETTER = rf"{_CALLED}{_BEFORE}(?P<letter>[A-Za-z]){_BEHIND}"
_CAPITAL = rf"{_CALLED}{_BEFORE}(?P<letter>(?-i:[A-Z])){_BEHIND}"
_EDGE = rf"[\s{re.escape(_MARKS)}]{{0,12}}"
_BARE = re.compile(rf"{_EDGE}([A-Za-z]){_EDGE}")
_MARK_AFTER = re.compile(r"[\s*_`'\"]{0,6}(?:[).:,;\]>}»…。、]|[-–—](?![A-Za-z0-9]))|[ ][-–—]|[ ]?[(\[]")
_SECOND = re.compile(
    r"[\s).*_,;\"']{0,6}(?:or|and|und|oder|et|ou|y|o|e|/|&|,|;)[\s(*_\"']{0,6}"
    r"(?:[A-Z](?!['’-]?\w)|[a-z](?=[\s.)*]{0,6}$))|[ ]{1,3}[A-Z](?=[\s.)*]{0,6}$)"
)
_ONLY_LETTERS = re.compile(r"[A-Z](?:[^A-Za-z0-9]{1,6}(?:(?:and|or)[^A-Za-z0-9]{1,6})?[A-Z]){0,25}")
_WORDS = re.compile(r"[\s*_`'\"“”]{0,6}[^\W\d_]")
_AFTER_PRONOUN = re.compile(
    r"[\s*_`]{0,6}(?:because|since|as|is|the|this|that|it|its|but|which|hence|therefore|although|though)\b"
    r"|[\s*_`]{0,6}+(?![A-Za-z0-9=+*/^<>|\\-])",
    re.IGNORECASE,
)
_ADVERBS = (
    r"(?:(?:also|clearly|definitely|certainly|surely|obviously|simply|just|therefore|thus|then|indeed|most likely"
    r"|probably|only),? ){0,2}"
)
_HEAD = re.compile(rf"\s{{0,6}}{_ADVERBS}{_LETTER}", re.IGNORECASE)
_REJECTED = re.compile(
    r"[\s)*_\]'\"`]{0,6}(?:\([^()\n]{0,80}\)[ ]?|, ?(?:but|which) (?:(?:it|that|this|one) )?)?"
    rf"(?:(?:is|was|are|seems|looks|appears|(?:would|must|can|could|might) be)(?:n['’]t| {_ADVERBS}(?:not|incorrect"
    r"|wrong|false|inaccurate|impossible|out|ruled out|eliminated|excluded|rejected|a (?:common )?distractor))"
    r"|(?:cannot|can['’]t|could(?: not|n['’]t)) be|(?:ist|es|est|è|é) (?:falsch|nicht|incorrect[aoe]?|faux|fals[ao]))\b"
    r"|\s{0,2}是?(?:错|不对|不正确)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"(?:\b(?:not|no|cannot|never|nor|neither|nicht|non|pas|não|nie|не|except|unlike|instead of|rather than|whether"
    r"|if|rul\w{1,4} out|eliminat\w{1,4}|exclud\w{1,4}|reject\w{0,4}|discard\w{0,4}|could be|might be|may be)|n['’]t"
    r"|不是?)"
    r"(?:[^\w.,;:]{1,3}(?:the|correct|right|option|choice|answer|letter|be|is|it|with|choose|pick|select|say"
    r"|\(?[a-z]\)?[ ](?:or|and|nor))){0,5}[^\w.,;:]{0,6}$",
    re.IGNORECASE,
)
_IS = rf"(?:\b(?:is|be|was)\b[:]?|[:=]|[ ][-–—→]{{1,2}}(?=[ ]))\s{{0,3}}{_ADVERBS}"
_SAID = re.compile(
    r"\b(?:(?:answer|solution|selection|(?:correct|right|best|remaining|final|chosen|only|likely|appropriate|accurate"
    r"|suitable|my)[ ](?:option|choice|one|letter|pick|statement|response))\b"
    rf"(?:[^.\n?:]{{0,80}}?{_IS}|[ ]?(?=[(\[]))"
    rf"|(?:(?:correct|conclusion|decision|verdict)[*_ ]{{0,3}}:|ans[.:])[ ]?){_LETTER}",
    re.IGNORECASE,
)
_FOREIGN = re.compile(
    r"(?:antwort|antwoord|lösung|respuesta|réponse|risposta|resposta|opción|opção|odpowied[zź]|odpov[eě][dď]|ответ"
    r"|відповідь|απάντηση|\bsvar|vastaus|válasz|răspuns|cevap|jawaban|đáp án|trả lời|\bjibu|idahun|答案|答え?|回答|正解"
    r"|选(?!项)择?|選(?!択肢|項)|정답|답|उत्तर|উত্তর|الإجابة|الجواب|תשובה|คำตอบ)"
    rf"[^.\n。:=,;、]{{0,30}}?(?:[:=]\s{{0,4}})?{_CAPITAL}",
    re.IGNORECASE,
)
_PICKED = re.compile(
    r"\b(?:choose|chose|pick|select|go with|going with|opt for|settle on|i['’]d say|(?P<weak>i think|i believe|i guess"
    r"|leaves?|leaving|so|thus|therefore|hence|but|sondern|sino|it['’]s|it is|it must be))"
    rf"[ :,]{{1,3}}{_ADVERBS}{_LETTER}",
    re.IGNORECASE,
)
_PRAISED = re.compile(
    rf"(?<![{_WORD}]){_BEFORE}(?P<letter>[A-Z]){_BEHIND}"
    r"(?=[)\]*_'\"`.:]{0,6}(?:[ ]?\([^()\n]{0,80}\)|,[^,.\n]{0,80},)?[ ]"
    rf"(?i:is {_ADVERBS}(?:the )?{_ADVERBS}(?:correct|right|best|answer|most (?:appropriate|accurate|likely))\b))"
)
_SET_OFF = re.compile(r"\((?P<letter>[A-Z])\)|\*\*(?P<bold>[A-Z])\*\*")
_END = re.compile(rf"\b(?:is|be|was) {_CAPITAL}[\s.!*)]{{0,6}}$")
_DENIAL = r"\b(?:note|wrong|incorrect|not|rejected|eliminated|excluded|distractors?)\b"
_DENIES = re.compile(_DENIAL, re.IGNORECASE)

_BULLET = re.compile(r"^\s{0,6}[-•*+][ ]")
_LABEL = re.compile(
    rf"^\s{{0,6}}(?![^:]{{0,40}}{_DENIAL})(?:[^\W\d]{{1,20}}[ ]){{0,3}}[^\W\d]{{1,20}}[ ]?:(?=.)", re.IGNORECASE
)
_ARTICLE = re.compile(r"^(?:an?|the) ")
_REASON = re.compile(r"[.;](?=\s)|,? (?:because|since|as)\b|[ ]\(", re.IGNORECASE)


def read_letter(text: str, options: Sequence[str]) -> str | None:
    r"""The chosen letter (`A` for the first of `options`, at most 26 of them); None = no answer.

    Read is, the first that there is: the last `"answer"` of a JSON object that the text ends with; the last `Answer:`;
    the last `\boxed{}`; the last sentence that names the answer (`the correct option is (C)`, `I choose C`, `C is
    correct`, also `Antwort: C`, `答案是C`); the last filled line, else the first, if it holds nothing but an option.
    What follows a `</think>` counts alone, and a text that goes on with a next question is read up to there.

    An option is its letter (`B`, `(b)`, `**B**`, `B) text`) or its exact text. An `A` or `I` before further words is
    a word and no letter. Two letters, a letter beyond the options, a rejected letter (`not B`, `B is wrong`) and a
    list of all options are no answer.
    """
    reply = _plain(text)
    following = islice(_NEXT_QUESTION.finditer(reply), 3)
    parts = (reply[: mark.start()] for mark in following)
    return next((letter for part in (*parts, reply) if (letter := _read(part, options))), None)


def _read(own: str, options: Sequence[str]) -> str | None:
    for stage in (_from_json, _from_line, _from_box, _from_sentence, _from_last_line, _from_first_line):
        letter = stage(own, options)
        if letter is not None:
            return letter or None
    return None


def _plain(text: str) -> str:
    """The reply itself, without control tokens, full-width signs as plain ones."""
    reply = text.rpartition("</think>")[2]
    return _CONTROL.sub(" ", (reply if reply.strip() else text).translate(_WIDE))


# Each stage gives a letter, "" where the text says that there is none, or None where the next stage is to look.


def _from_json(own: str, options: Sequence[str]) -> str | None:
    """The value of the last key `answer`, unless the text goes on and declares another."""
    found = list(_JSON.finditer(own))
    if not found or declared(own[found[-1].end() :].rpartition("}")[2]) is not None:
        return None
    return _chosen(_value(next(filter(None, found[-1].groups()), "")), options) or ""


def _value(written: str) -> str:
    try:
        return str(json.loads(f'"{written}"'))
    except ValueError:
        return written


def _from_line(own: str, options: Sequence[str]) -> str | None:
    """What stands behind the last `Answer:`, or in sentences after it."""
    ends = [mark.end() for mark in _COLON.finditer(own)]
    line = declared(own) if ends else None
    if line is None:
        return None
    if _OPTION_LIST.match(own, ends[-1]):
        return ""
    letter = _chosen(line, options)
    if letter or len(line.strip()) <= _SHORT:
        return letter or ""
    after = own.rpartition(line)[2]
    return _from_sentence(after, options) or _from_last_line(after, options) or ""


def _from_box(own: str, options: Sequence[str]) -> str | None:
    r"""What the last `\boxed{}` holds; a box that holds a formula is none of an answer's."""
    box = declared(own) if "\\boxed" in own else None
    if box is None:
        return None
    return _chosen(box, options) or ("" if _ONLY_LETTERS.fullmatch(_untex(box).strip(_MARKS)) else None)


def _from_sentence(own: str, options: Sequence[str]) -> str | None:
    """What the last sentence says that names the answer, by letter or by text."""
    tail = normalize("NFKC", own[-_TAIL:])
    answer = declared(tail) or ""
    by_name = _by_text(_untex(answer), options) or _by_sentence(tail, options)
    # Several headings are a list of the options.
    return by_name or (_chosen(answer, options) if tail.count("####") == 1 else None)


def _from_last_line(own: str, options: Sequence[str]) -> str | None:
    """The last filled line, if it is an option and not the last of a list of them."""
    *before, line = _filled(normalize("NFKC", own[-_TAIL:]).rsplit("\n", 12)[-12:]) or [""]
    letter = _option(line, options) or _option(_LABEL.sub("", line), options)
    if letter is None:
        return _by_set_off(line, options) if len(line) <= _WINDOW // 5 else None
    return "" if before and _follows(_option(before[-1], options), letter) else letter


def _from_first_line(own: str, options: Sequence[str]) -> str | None:
    """The first filled line, if it is a short option and not the first of a list of them."""
    line, *after = _filled(normalize("NFKC", own[:_TAIL]).split("\n", 12)[:12]) or [""]
    letter = _option(line, options) if len(line) <= _SHORT else None
    return None if letter is None or (after and _follows(letter, _option(after[0], options))) else letter


def _filled(lines: Sequence[str]) -> list[str]:
    return [_BULLET.sub("", line) for line in lines if line.strip(_MARKS)]


def _follows(letter: str | None, other: str | None) -> bool:
    return letter is not None and other is not None and ord(letter) + 1 == ord(other)


def _option(line: str, options: Sequence[str]) -> str | None:
    """The option that a line is, and nothing else."""
    plain = _untex(line)
    return _by_text(plain, options) or _by_letter(plain, options, bare_words=False)


def _chosen(answer: str, options: Sequence[str]) -> str | None:
    """The option that a declared answer names."""
    plain = _untex(normalize("NFKC", answer[:_WINDOW]))
    bare = _BARE.fullmatch(plain)
    if bare and bare[1].upper() in _known(options):
        return bare[1].upper()
    if _OPTION_ROW.match(plain):
        return None
    return (
        _by_text(answer, options)
        or _by_text(plain, options)
        or _by_letter(plain, options, bare_words=True)
        or _by_set_off(plain, options)
    )


def _by_text(answer: str, options: Sequence[str]) -> str | None:
    """The one option whose text the answer is, or is up to a reason for it; a letter alone is no option's text."""
    first = _REASON.split(answer[:_WINDOW], maxsplit=1)[0]
    for given in (answer[:_WINDOW], first):
        bare = _BARE.fullmatch(given)
        if bare and bare[1].upper() in _known(options):
            return None
        for form in (str.strip, folded, _bare):
            hits = [mark for mark, option in zip(ascii_uppercase, options, strict=False) if form(option) == form(given)]
            if hits and form(given):
                return hits[0] if len(hits) == 1 else None
    return None


def _by_letter(answer: str, options: Sequence[str], *, bare_words: bool) -> str | None:
    """The letter at the head of `answer`; `bare_words`: a capital letter may be followed by plain words."""
    head = _HEAD.match(answer)
    return _named(head, options, bare_words=bare_words) if head and not _OPTION_ROW.match(answer) else None


def _by_sentence(text: str, options: Sequence[str]) -> str | None:
    """The letter that a sentence in `text` calls the answer: the last one of the kind that says it most plainly."""
    for pattern in (_SAID, _FOREIGN, _PICKED):
        found = [_named(mark, options, bare_words=not mark.groupdict().get("weak")) for mark in pattern.finditer(text)]
        if letters := list(filter(None, found)):
            return letters[-1]
    return _single(_named(mark, options, bare_words=True) for mark in _PRAISED.finditer(text))


def _by_set_off(line: str, options: Sequence[str]) -> str | None:
    """The letter that a line names, or that it ends with, or the only one that brackets or bold type set off."""
    end = None if _DENIES.search(line) else _END.search(line)
    return (
        _by_sentence(line, options)
        or _single(_named(mark, options, bare_words=True) for mark in _SET_OFF.finditer(line))
        or (_named(end, options, bare_words=False) if end else None)
    )


def _single(letters: Iterable[str | None]) -> str | None:
    found = set(filter(None, letters))
    return found.pop() if len(found) == 1 else None


def _named(mark: re.Match[str], options: Sequence[str], *, bare_words: bool) -> str | None:
    """The letter of a match, if it is meant as the answer: no word, not rejected, not one of two, not unknown."""
    letter, place = mark[str(mark.lastgroup)], mark.start(str(mark.lastgroup))
    before = mark.string[max(0, place - 60) : place]
    rest = mark.string[mark.end() : mark.end() + 200].partition("\n")[0]
    if (
        letter.upper() not in _known(options)
        or _NEGATED.search(before)
        or _REJECTED.match(rest)
        or _second(letter, rest)
    ):
        return None
    marked = _MARK_AFTER.match(rest) is not None or not rest.strip(_MARKS)
    words = _AFTER_PRONOUN if letter in "AI" else _WORDS
    plain = bare_words and letter.isupper() and words.match(rest) is not None
    return letter.upper() if marked or plain else None


def _second(letter: str, rest: str) -> bool:
    """Whether another letter follows that is as much an answer as the first."""
    other = _SECOND.match(rest)
    if other is None or other[0][-1].upper() == letter.upper():
        return False
    after = rest[other.end() :]
    word = other[0][-1] in "AI" and re.match(r"[ ][a-z]", after) is not None
    return not word and not _REJECTED.match(after)


def _known(options: Sequence[str]) -> str:
    return ascii_uppercase[: len(options)]


def _untex(text: str) -> str:
    """`text` without what only typesets it."""
    return _TEX.sub("", text)


def _bare(text: str) -> str:
    """`text` folded, without marks at its ends and without its article."""
    # A point before a number belongs to it.
    return _ARTICLE.sub("", folded(_untex(text[:500]).rstrip(_MARKS).lstrip(_MARKS.replace(".", ""))))
