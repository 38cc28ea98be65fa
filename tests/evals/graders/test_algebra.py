"""How answers of mathematics are cut, read, computed and compared, in this process: rule by rule."""

from __future__ import annotations

from fractions import Fraction

import pytest

from evals.graders.algebra.equal import equal
from evals.graders.algebra.expression import Node, contains, number, parse, read_value, renamed, symbols, text
from evals.graders.algebra.forms import canonical
from evals.graders.algebra.lexer import UnreadableError, closing_brace, tokens
from evals.graders.algebra.reading import read
from evals.graders.algebra.same import constant, near, proportional, same
from evals.graders.algebra.second import _harmless
from evals.graders.algebra.value import Evaluator, TooLargeError, UndefinedError
from evals.graders.algebra.words import is_word


def cut(answer: str) -> str:
    """The tokens of an answer, each as its kind and text."""
    return " ".join(f"{token.kind}:{token.text.replace(' ', '~')}" for token in tokens(answer))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("1,234.5", "num:1,234.5"),
        (r"1{,}234", "num:1234"),
        ("12 345", "num:12345"),
        (r"0.1\overline{6}", "num:0.1(6)"),
        ("2e-3", "num:2e-3"),
        ("3rd", "num:3"),
        ("2:00 pm", "num:2"),
        (r"\frac{1}{2}", "cmd:frac open:{ num:1 close:{ open:{ num:2 close:{"),
        (r"x\cdot y\times z", "sym:x op:* sym:y op:* sym:z"),
        (r"a \le b \ne c", "sym:a rel:<= sym:b rel:!= sym:c"),
        ("a := b", "sym:a rel:= sym:b"),
        ("f'(x)", "sym:f' open:( sym:x close:("),
        (r"\left[0,\infty\right)", "open:[ num:0 sep:, sym:inf close:("),
        (r"\left.x\right.", "sym:x"),
        (r"\left . x", "word:. sym:x"),
        (r"\{1\}", "open:set num:1 close:set"),
        ("{1}", "open:{ num:1 close:{"),
        (r"\lfloor x \rfloor", "open:floor sym:x close:floor"),
        (r"\text{ cm }^2", "unit:cm op:^ num:2"),
        (r"\mathrm{ sq  units}", "unit:"),
        (r"\text{m}", "unit:m"),
        (r"\mathrm{m}", "sym:m"),
        (r"\mathbb{R}", "sym:setR"),
        (r"\operatorname{lcm}(2,3)", "cmd:lcm open:( num:2 sep:, num:3 close:("),
        (r"\vec{AB}", "sym:AB"),
        (r"\varepsilon+\Delta", "sym:epsilon op:+ sym:Delta"),
        (r"\hspace{3cm}5", "num:5"),
        (r"5\,\%", "num:5 unit:%"),
        ("€5", "unit:euro num:5"),
        ("5 min", "num:5 unit:min"),
        ("sec x", "cmd:sec sym:x"),
        ("min (1, 2)", "cmd:min open:( num:1 sep:, num:2 close:("),
        ("60°", "num:60 unit:deg"),
        (r"60^{\circ}C", "num:60 unit:deg"),
        (r"60^\circ F", "num:60 unit:deg"),
        ("pi or Infinity", "sym:pi sep:or word:infinity"),
        ("cats", "word:cats"),
        ("xyz", "sym:x sym:y sym:z"),
        ("abc'", "sym:a sym:b sym:c'"),
        ("x₁₂", "sym:x op:_ num:1 op:_ num:2"),
        ("½", "cmd:frac open:{ num:1 close:{ open:{ num:2 close:{"),
        (r"a & b \\[2pt] c", "sym:a op:& sym:b op:cr sym:c"),
        (r"\begin{array}{cc}1\end{array}", "open:array num:1 close:array"),
        (r"\begin{pmatrix*}1\end{pmatrix*}", "open:pmatrix num:1 close:pmatrix"),
        ("$`5`$.", "num:5 word:."),
        (r"\textbf x", "sym:x"),
    ],
)
def test_tokens_by_hand(answer: str, found: str) -> None:
    """What an answer is cut into; fonts, spaces and sizes say nothing."""
    assert cut(answer) == found


@pytest.mark.parametrize(
    ("answer", "complaint", "foreign"),
    [
        ("x" * 2001, "longer than an answer", False),
        ("x+" * 301, "longer than an answer", False),
        ("#", "the sign '#'", False),
        (r"\foo", "the command foo", True),
        (r"\@", "the command @", False),
        (r"\vec{1}", "the accent vec", True),
        (r"\text{\text{\text{\text{\text{x}}}}}", "fonts within fonts", False),
        (r"\text{x", "an open brace", False),
        ("", "nothing", False),
        (" .,; ", "nothing", False),
        ("1 2", "'2' behind a formula", False),
        ("1+", "an unfinished formula", False),
        ("(" * 41 + "1" + ")" * 41, "a formula nested too deeply", False),
        ("9" * 401, "a number of hundreds of digits", False),
        ("5!!", "a double factorial", True),
        ("|x", "a bar that does not close", False),
        ("(x]", "'[' where '(' should close", False),
        ("max 3", "max without arguments", False),
        (",".join(f"x_{n}" for n in range(61)), "a list of many", False),
        (r"\pm 1 \pm 2 \pm 3 \pm 4 \pm 5", "many plus-minus signs", False),
        ("x = ", "a relation with an empty side", False),
        ("a < b > c", "bounds that point both ways", False),
        ("a < b < c < d", "a chain of relations", True),
        ("1 < 2 < 3", "a chain of bounds", True),
        ("[1, 2, 3)", "an interval without two ends", False),
        (r"A \setminus B", "a difference of sets", True),
        (r"\mathbb{R} \setminus \{a, b\}", "holes in no known order", True),
        (r"\begin{pmatrix}1&2\\3\end{pmatrix}", "a matrix of unequal rows", False),
        ("243_{x}", "a base that is no number", True),
        ("half 5", "half before a value", False),
        ("5 million", "million behind a value", False),
        ("5 apples 6", "a number among the words behind a value", False),
    ],
)
def test_what_is_not_read_says_why(answer: str, complaint: str, foreign: bool) -> None:
    """One reason each, and whether another reader may know it."""
    with pytest.raises(UnreadableError) as found:
        read(answer)
    assert (str(found.value), found.value.foreign) == (complaint, foreign)


@pytest.mark.parametrize(
    ("answer", "key"),
    [
        ("2/4", "1/2"),
        ("-0.5", "-1/2"),
        ("x + 2", "add(2,x)"),
        ("2x", "mul(2,x)"),
        ("x - y", "add(neg(y),x)"),
        ("x^2", "pow(x,2)"),
        ("x/y", "div(x,y)"),
        (r"\sqrt{x}", "root(2,x)"),
        (r"\sqrt[3]{x}", "root(3,x)"),
        (r"\log_2 x", "log(2,x)"),
        ("log x", "log(10,x)"),
        (r"\ln x", "ln(x)"),
        (r"\sin^2 x", "pow(sin(x),2)"),
        (r"\sin^{-1} x", "arcsin(x)"),
        (r"\sin 2x \cos y", "mul(cos(y),sin(mul(2,x)))"),
        (r"\sin x (y)", "mul(sin(x),y)"),
        ("cbrt(x)", "root(3,x)"),
        ("|x - 1|", "abs(add(-1,x))"),
        ("|x||y|", "mul(abs(x),abs(y))"),
        (r"\lfloor x \rfloor", "floor(x)"),
        (r"\lceil x \rceil", "ceil(x)"),
        (r"\binom{n}{2}", "binom(n,2)"),
        ("n!", "fact(n)"),
        ("gcd(4, 6)", "gcd(4,6)"),
        ("f(x) + 1", "add(1,applyf(x))"),
        ("x_{12} + 1", "add(1,x_12)"),
        ("--x", "x"),
        ("2*-x", "mul(2,neg(x))"),
        ("x^-2", "pow(x,neg(2))"),
        ("x:y", "div(x,y)"),
        ("xyz", "mul(x,y,z)"),
        ("3 1/2", "7/2"),
        (r"3\frac12", "7/2"),
        (r"3\frac{1}{2}", "7/2"),
        (r"3\frac{3}{2}", "mul(3,div(3,2))"),
        (r"\frac12x", "mul(div(1,2),x)"),
        (r"30^\circ", "30"),
        (r"\sin 30^\circ", "sin(mul(30,div(pi,180)))"),
        ("243_6", "243_6"),
        ("(243)_6", "243_6"),
        ("243 base six", "243_6"),
        ("243_{16}", "243_16"),
        ("5 km", "5"),
        ("$5", "5"),
        ("-$5", "-5"),
        ("about 5 apples", "5"),
        ("5 (all of them)", "5"),
        ("x = 5", "5"),
        ("5 = x", "5"),
        ("x = 2 + 3 = 5", "5"),
        ("y = 2x + 1", "add(1,mul(2,x))"),
        ("2x + y = 1", "1=add(mul(2,x),y)"),
        ("a + b != 1", "1!=add(a,b)"),
        ("x < 3", "(-inf,3)"[:1] + "neg(inf),3)"),
        ("x >= 3", "[3,inf)"),
        ("3 <= x < 5", "[3,5)"),
        ("5 > x >= 3", "[3,5)"),
        ("x + y < 3", "add(x,y)<3"),
        ("3 > x + y", "add(x,y)<3"),
        ("x != 2", "(2,inf)|(neg(inf),2)"),
        (r"x \in [0, 1]", "[0,1]"),
        ("(0, 1]", "(0,1]"),
        ("]0, 1[", "(0,1)"),
        ("[0, 1[", "[0,1)"),
        (r"(0,1) \cup (2,3)", "(0,1)|(2,3)"),
        (r"\mathbb{R} \setminus \{2\}", "(2,inf)|(neg(inf),2)"),
        ("(2, 1)", "(2,1)"),
        ("[2, 1, 3]", "[2,1,3]"),
        ("(1,234)", "(1,234)"),
        (r"\{2, 1, 1\}", "1, 2"),
        (r"\{x | x > 0\}", "(0,inf)"),
        (r"\{\}", "empty set"),
        ("3, 1 and 2", "1, 2, 3"),
        ("x = 1, 2", "1, 2"),
        ("x = 1 or x = 2", "1, 2"),
        (r"\pm 3", "-3, 3"),
        (r"1 \pm \sqrt{2}", "add(1,neg(root(2,2))), add(1,root(2,2))"),
        (r"a \pm b \mp c", "add(a,b,neg(c)), add(a,c,neg(b))"),
        (r"(\pm 1, 2)", "(-1,2), (1,2)"),
        ("1:2:3", "(1,2,3)"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "1,2;3,4"),
        (r"\sqrt{2} \approx 1.41", "root(2,2)"),
        ("The answer is 5", "5"),
        ("no solution", "empty set"),
        ("The Red  cat's", "red cats"),
        ("the", "the"),
        ("triangle ABC", "triangle abc"),
        (r"\text{does not exist}", "undefined"),
        ("{{5}}", "5"),
        ("5.", "5"),
        ("5, apples", "5"),
    ],
)
def test_forms_by_hand(answer: str, key: str) -> None:
    """Each kind of answer in the spelling in which equal ones are equal."""
    assert canonical(read(answer)) == key


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("3.14", r"\pi", True),
        ("3.1", r"\pi", False),
        ("3.15", r"\pi", False),
        ("3.14", "3.141", False),
        ("0.33", "1/3", False),
        ("0.333", "1/3", True),
        ("0.667", "2/3", True),
        ("1.50", "1", False),
        (r"\pi", "3.14", False),
        (r"\pi", "3.141592654", True),
        (r"\pi", "3.14159265", False),
        ("50%", "0.5", True),
        ("50%", "50", True),
        ("0.5%", "0.5", False),
        ("0.5", "50%", True),
        ("50%", "50%", True),
        ("50%", "49%", False),
        ("5 cm", "5", True),
        ("5", "5 cm", True),
        ("5 cm", "5 km", False),
        ("5", "5 m", True),
        ("5", "5 x", False),
        ("243_6", "243", True),
        ("243_6", "243_7", False),
        ("x = 5", "5", True),
        ("5", "x = 5", True),
        ("x = 5", "y = 5", False),
        ("x = 5", "X = 5", True),
        ("1, 2", "2, 1", True),
        ("1, 2", "1, 2, 3", False),
        ("1, 2", "1, 1", False),
        ("1, 2", "x = 2, x = 1", True),
        (r"\{1, 2\}", r"\{2, 1, 1\}", True),
        (r"\{1, 2\}", "1, 2", True),
        ("(1, 2)", "(2, 1)", False),
        ("(1, 2)", "1, 2", True),
        ("(3, 5)", "y = 5, x = 3", True),
        ("(3, 5)", "x = 5, y = 3", False),
        ("1:2", "2:4", True),
        ("1:2:3", "2:4:6", True),
        ("1:2:3", "2:4:7", False),
        ("1:2:3", "1:2:3:4", False),
        ("1:2:3", "1, 2, 3", False),
        ("(0, 1]", "(0, 1]", True),
        ("(0, 1]", "[0, 1)", False),
        ("(0, 1)", "0 < x < 1", True),
        (r"[0,1] \cup [2,3]", r"[2,3] \cup [0,1]", True),
        (r"[0,1] \cup [2,3]", r"[0,1] \cup [2,4]", False),
        (r"[0,1] \cup \{2\}", r"\{2\} \cup [0,1]", True),
        (r"[0,1] \cup \{2\}", r"\{3\} \cup [0,1]", False),
        (r"[0, \infty)", r"[0, \infty]", True),
        (r"\mathbb{R}", "(0, 1)", False),
        ("2x + y = 1", "4x + 2y = 2", True),
        ("2x + y = 1", "2x + y = 2", False),
        ("2x + y < 1", "2x + y > 1", False),
        ("2x + y < 1", r"2x + y \le 1", False),
        ("x + y != 1", "-x - y != -1", True),
        ("y = 2x", "2x - y = 0", True),
        ("y = 2x", "z = 2x", False),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1, 2)", True),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}", False),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}", False),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "3", False),
        (r"\sqrt{2}", r"\sqrt{2} \approx 1.41", True),
        ("1.41", r"\sqrt{2} \approx 1.41", True),
        (r"\sqrt{2}", r"\sqrt{3} \approx 1.41", False),
        ("red", "Red.", True),
        ("red", "blue", False),
        ("red", "5", False),
        ("1.5", "1.5 or 3/2", True),
        ("1.5", "1.5 or 2", False),
        ("1.5", "(1.5, 1.5)", False),
        ("a + b", "A + B", True),
        ("a + A", "A + a", True),
        ("a + b", "a + c", False),
        ("(x+1)^2", "x^2+2x+1", True),
        ("(x+1)^2", "x^2+2x+2", False),
        (r"\sqrt{x^2}", "x", False),
        (r"\frac{1}{\sqrt{n}}", r"\sqrt{\frac{1}{n}}", True),
        (r"(-1)^n", r"\cos(n\pi)", True),
        (r"(-1)^x", r"\cos(x\pi)", False),
        (r"\sin^2 x + \cos^2 x", "1", True),
        ("i^2", "-1", True),
        ("e^{i\\pi}", "-1", True),
        (r"\infty", r"\infty", True),
        (r"\infty", r"-\infty", False),
        ("1/0", "2/0", None),
        ("f(x)", "f(x)", True),
        ("2f(x)", "f(2x)", False),
        ("10!", "3628800", True),
        (r"\binom{5}{2}", "10", True),
        (r"\gcd(4, 6)", "2", True),
        ("Mr Red", "Mr. Red", True),
        (r"\frac{1}{2}", r"\sin 30^\circ", True),
        (r"\frac{1}{2}", r"\cos 60°", True),
        (r"\frac{1}{4}", r"\sin^2 30^\circ", True),
        (r"\frac{1}{8}", r"\cos 20^\circ \cos 40^\circ \cos 80^\circ", True),
        (r"\sin(30^\circ)", r"\sin 30^\circ", True),
        ("30", r"30^\circ", True),
        (r"\sqrt{3}", r"\sqrt{3}^\circ", True),
    ],
)
def test_rules_of_comparison(gold: str, answer: str, expected: bool | None) -> None:
    """The rules of the module, and the nearest that they do not allow."""
    try:
        found = equal(read(gold), read(answer))
    except UnreadableError:
        found = None
    assert found is expected


def test_a_positive_symbol_is_the_root_of_its_square() -> None:
    """Only where the question says so."""
    gold, answer = read("x"), read(r"\sqrt{x^2}")
    assert (equal(gold, answer), equal(gold, answer, positive=True)) == (False, True)


def formula(answer: str) -> Node:
    """The tree of a formula."""
    return parse(tokens(answer))


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("2^10", 1024),
        ("(-8)^{1/3}", -2),
        ("(-8)^{2/3}", 4),
        ("0^2", 0),
        (r"\sqrt{9/4}", Fraction(3, 2)),
        (r"\sqrt[3]{27}", 3),
        (r"\lfloor -7/2 \rfloor", -4),
        (r"\lceil -7/2 \rceil", -3),
        ("|-3|", 3),
        ("5!", 120),
        ("0!", 1),
        (r"\binom{6}{3}", 20),
        ("max(1, 3, 2)", 3),
        ("min(3, 1, 2)", 1),
        ("gcd(12, 18)", 6),
        ("lcm(4, 6)", 12),
        ("2*3/4-1", Fraction(1, 2)),
        ("-2^2", -4),
        ("log 1000", 3),
        (r"\log_2 8", 3),
        (r"\sin(\pi/6)", Fraction(1, 2)),
        (r"\arctan 1 * 4/\pi", 1),
        ("e^0", 1),
        ("0.1\\overline{6}", Fraction(1, 6)),
    ],
)
def test_values_by_hand(answer: str, value: Fraction) -> None:
    """A formula without symbols has the value that one works out on paper."""
    node = formula(answer)
    assert near(node, Node("num", value=Fraction(value)), Fraction(1, 10**50))
    assert not near(node, Node("num", value=value + Fraction(1, 1000)), Fraction(1, 10**50))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("1/0", UndefinedError),
        ("0^0", None),
        ("0^{-1}", UndefinedError),
        (r"\infty - \infty", UndefinedError),
        ("gcd(1/2, 1)", UndefinedError),
        ("9^{9^9}", TooLargeError),
        ("e^{10000000}", TooLargeError),
        ("(3000000)!", TooLargeError),
        ("exp(2000000)", TooLargeError),
    ],
)
def test_values_that_there_are_not(answer: str, kind: type[Exception] | None) -> None:
    """No value, or one too large to be computed; 0 to the power 0 is 1."""
    node = formula(answer)
    if kind is None:
        assert constant(node) == 1
        return
    assert constant(node) is None
    with pytest.raises(kind):
        Evaluator({}).value(node)


def test_trees_by_hand() -> None:
    """Numbers, symbols and parts of formulas are told apart."""
    assert [number(formula(one)) for one in ("-3/4", "1/0", "2^2", "x", "-x")] == [Fraction(-3, 4), *[None] * 4]
    assert symbols(formula(r"x_1 + \pi e^i y")) == {"x_1", "y"}
    assert contains(formula("1 + i"), "i")
    assert contains(formula(r"1 + \sin x"), "sin", "cos")
    assert not contains(formula("1 + x"), "i", "sin")
    assert text(renamed(formula("a + b a"), {"a": "c"})) == "add(c,mul(b,c))"
    assert read_value("1,234.5") == Fraction(2469, 2)
    assert read_value("0.(3)") == Fraction(1, 3)
    assert read_value("2e-3") == Fraction(1, 500)
    assert read_value("9" * 400) == 10**400 - 1


def test_sameness_by_hand() -> None:
    """Too many symbols are not compared; equations are the same up to a factor, inequalities up to a positive one."""
    many = formula("+".join(f"x_{place}" for place in range(21)))
    assert same(many, many) is None
    twenty = formula("+".join(f"x_{place}" for place in range(20)))
    assert same(twenty, twenty) is True
    one, other = formula("x - y"), formula("2y - 2x")
    assert (proportional(one, other), proportional(one, other, signed=True)) == (True, False)
    assert proportional(one, formula("2x - 2y"), signed=True) is True
    assert proportional(one, formula("x - 2y")) is False
    assert proportional(formula("1"), formula("2")) is None
    assert constant(formula("x")) is None
    assert near(formula("1"), formula("1.5"), Fraction(1, 2))
    assert not near(formula("1"), formula("1.51"), Fraction(1, 2))
    assert not near(formula("x"), formula("1"), Fraction(1, 2))


def test_braces_by_hand() -> None:
    """An escaped brace is none, and one that closes too late does not close."""
    assert closing_brace(r"a{b\}{c}}d", 1, 99) == 8
    assert closing_brace("{a}", 0, 2) is None
    assert closing_brace("{a}", 0, 3) == 2
    assert closing_brace("{a", 0, 99) is None


@pytest.mark.parametrize(
    ("letters", "word"), [("is", True), ("cat", True), ("abc", False), ("st", False), ("xyz", False)]
)
def test_words_and_products(letters: str, word: bool) -> None:
    """A word has three letters or more, a vowel among them, and others than those of variables."""
    assert is_word(letters) is word
    assert is_word(letters.upper()) is word


@pytest.mark.parametrize(
    ("answer", "harmless"),
    [
        (r"\sum_{k=1}^{n} k", True),
        ("9" * 12, True),
        ("9" * 13, False),
        ("x+" * 199 + "xy", True),
        ("x+" * 200 + "x", False),
        (r"\def\a{1}", False),
        ("9^{9^9}", False),
        ("5!!", False),
        ("2^{1000}", False),
        ("import", False),
        (r"\begin{pmatrix}1\end{pmatrix}", True),
    ],
)
def test_what_the_second_reader_is_given(answer: str, harmless: bool) -> None:
    """Nothing long, no unknown command, no large number or power, and no word."""
    assert _harmless(answer) is harmless
