"""Unit tests that are changed so that a right program is bound to fail them."""

from __future__ import annotations

import ast
import unittest
from random import Random
from textwrap import dedent, indent
from typing import Any

import pytest

from evals.graders.code.decoys import _margin, decoy, groups_of, names_of_tests, sites
from evals.graders.code.other_value import _changed, another, literal_value


def source_of(body: str, *, helpers: str = "") -> ast.Module:
    """A source of one test with this body."""
    head = "import unittest\nfrom unittest.mock import Mock, patch\nclass TestCases(unittest.TestCase):\n"
    return ast.parse(
        head + indent(dedent(helpers), "    ") + "    def test_it(self):\n" + indent(dedent(body), " " * 8)
    )


def fails(source: str) -> set[str]:
    """The tests of a source that do not end well."""
    space: dict[str, object] = {"__name__": "tests"}
    exec(source, space)
    kind = space["TestCases"]
    assert isinstance(kind, type)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
    result = unittest.TestResult()
    suite.run(result)
    return {getattr(test, "test_case", test)._testMethodName for test, _ in [*result.failures, *result.errors]}


RIGHT = [
    "self.assertEqual(1 + 1, 2)",
    "self.assertEqual(2, 1 + 1, 'a message')",
    "self.assertEqual(str(12), '12')",
    "self.assertEqual('a'.encode(), b'a')",
    "self.assertEqual(sorted('ba'), ['a', 'b'])",
    "self.assertEqual([], [])",
    "self.assertEqual(dict(a=1), {'a': 1})",
    "self.assertEqual(dict(), {})",
    "self.assertEqual(set('ab'), {'a', 'b'})",
    "self.assertEqual(set('a'), {'a'})",
    "self.assertEqual(set(), set())",
    "self.assertEqual(tuple([1, (2, None)]), (1, (2, None)))",
    "self.assertEqual(tuple([]), ())",
    "self.assertEqual(0 == 1, False)",
    "self.assertEqual(1j * 2, 2j)",
    "self.assertEqual(1e300 * 1, 1e300)",
    "self.assertEqual(-7 * 1, -7)",
    "expected = {'a': [1, 2]}\nself.assertEqual({'a': [1, 2]}, expected)",
    "expected = 3\nother = expected + 1\nself.assertEqual(3, expected)",
    "self.assertListEqual([1], [1])",
    "self.assertCountEqual([2, 1], [1, 2])",
    "self.assertCountEqual([], [])",
    "self.assertDictEqual({'a': None}, {'a': None})",
    "self.assertAlmostEqual(0.1 * 3, 0.3)",
    "self.assertAlmostEqual(100.4, 100, delta=0.5)",
    "self.assertAlmostEqual(1000.4, 999, delta=50)",
    "self.assertAlmostEqual(1234.0, 1230, places=-2)",
    "self.assertAlmostEqual(-0.5, -0.5, 3)",
    "places = 2\nself.assertAlmostEqual(1.0, 1.001, places)",
    "self.assertTrue(1)",
    "self.assertFalse([])",
    "self.assertIn(1, [1])",
    "self.assertNotIn(1, [2])",
    "self.assertIsNone(None)",
    "self.assertIsInstance(1, int)",
    "self.assertGreater(2, 1)",
    "self.assertLessEqual(1, 1)",
    "self.assertNotEqual(1, 2)",
    "self.assertRegex('abc', 'b')",
    "assert 1 + 1 == 2",
    "assert [1]",
    "with self.assertRaises(ValueError):\n    int('x')",
    "with self.assertRaises(Exception) as caught:\n    int('x')\nself.assertIn('x', str(caught.exception))",
    "self.assertRaises(ZeroDivisionError, lambda: 1 / 0)",
    "mock = Mock()\nmock(1)\nmock.assert_called_once_with(1)",
    "mock = Mock()\nmock(1)\nmock.assert_called()",
    "mock = Mock()\nmock.assert_not_called()",
    "with patch('os.getcwd', return_value='x') as mock:\n    import os\n    self.assertEqual(os.getcwd(), 'x')",
    "for name in ['a', 'b']:\n    self.assertTrue(name)",
    "for x in 1, 2:\n    if x == 1:\n        self.assertEqual(x, 1)\n    else:\n        self.assertTrue(x)",
    "try:\n    self.assertEqual(1, 1)\nfinally:\n    pass",
    "with self.subTest('one'):\n    self.assertEqual(1, 1)",
]


@pytest.mark.parametrize("body", RIGHT)
def test_a_right_program_fails_its_decoys(body: str) -> None:
    """An assertion that holds does so no more, whatever chance chooses; without the change it does."""
    tree = source_of(body)
    assert fails(ast.unparse(tree)) == set()
    groups = groups_of(tree)
    assert groups
    assert all(fails(decoy(tree, groups, Random(seed))) == {"test_it"} for seed in range(12))


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "for name in []:\n    self.assertTrue(name)",
        "for name in self.names():\n    self.assertTrue(name)",
        "if self:\n    self.assertTrue(1)",
        "try:\n    self.assertTrue(1)\nexcept AssertionError:\n    pass",
        "while self:\n    self.assertTrue(1)\n    break",
        "return\nself.assertTrue(1)",
        "if not self:\n    return\nself.assertTrue(1)",
        "if not self:\n    self.skipTest('why')\nself.assertTrue(1)",
        "def inner():\n    self.assertTrue(1)",
        "with self.assertRaises(KeyError, msg='x') if self else self:\n    pass",
        "for name in ['a']:\n    if not name:\n        continue\n    self.assertTrue(name)",
        "self.other(1)",
        "self.assertCountEqual([...], [...])",
    ],
)
def test_assertions_that_may_not_be_reached(body: str) -> None:
    """Where nothing says that an assertion runs, it is left alone."""
    assert groups_of(source_of(body)) == []


def test_decorators() -> None:
    """A test behind a decorator that may turn its failure into a success is left alone; mocks do not."""
    for decorator, count in (("@unittest.expectedFailure", 0), ("@retry(3)", 0), ("@patch('os.getcwd')", 1)):
        helper = f"{decorator}\ndef test_other(self, *mocks):\n    self.assertEqual(1, 1)\n"
        assert len(groups_of(source_of("pass", helpers=helper))) == count


def test_what_follows_a_nested_function() -> None:
    """A return of a nested function leaves the test where it is."""
    tree = source_of("def inner():\n    return 1\nself.assertEqual(inner(), 1)")
    assert len(groups_of(tree)) == 1


def test_helpers() -> None:
    """Tests whose assertions stand in a helper are made decoys together, through it."""
    helpers = """
        def base(self, number):
            self.assertEqual(number + 1, 2)
        def test_other(self):
            self.base(1)
        def test_own(self):
            self.assertTrue(1)
    """
    tree = source_of("self.base(1)", helpers=helpers)
    one, both = groups_of(tree)
    assert one.tests == {("TestCases", "test_own")}
    assert both.tests == {("TestCases", "test_it"), ("TestCases", "test_other")}
    assert fails(decoy(tree, [both], Random(0))) == {"test_it", "test_other"}
    assert fails(decoy(tree, [one], Random(0))) == {"test_own"}


def test_only_the_chosen_ones_change() -> None:
    """A decoy changes what it is asked to, and leaves the given tree as it is."""
    tree = source_of("self.assertEqual(1, 1)", helpers="def test_other(self):\n    self.assertEqual(2, 2)\n")
    before = ast.dump(tree)
    groups = groups_of(tree)
    assert [fails(decoy(tree, [group], Random(1))) for group in groups] == [{"test_other"}, {"test_it"}]
    assert fails(decoy(tree, [], Random(1))) == set()
    assert ast.dump(tree) == before


def test_chance() -> None:
    """Another seed gives another decoy, the same one the same."""
    tree = source_of("self.assertEqual(10, 10)\nself.assertTrue(1)\nself.assertEqual('a', 'a')")
    made = {decoy(tree, groups_of(tree), Random(seed)) for seed in range(40)}
    assert len(made) > 5
    assert decoy(tree, groups_of(tree), Random(3)) == decoy(tree, groups_of(tree), Random(3))


def test_other_values_are_marked() -> None:
    """Places where another value will be expected are told from those where the opposite will."""
    tree = source_of("self.assertEqual(len('a'), 1)")
    method = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    assert sorted(site.literal for site in sites(method)) == [False, True]


def test_which_tests_there_are() -> None:
    """Tests are read from the source: inherited ones too, in the order in which they run, without skipped ones."""
    tree = ast.parse(
        dedent(
            """
            import unittest
            class Base(unittest.TestCase):
                def test_b(self): pass
                def helper(self): pass
            class More(Base):
                def test_a(self): pass
                @unittest.skip("why")
                def test_c(self): pass
            @unittest.skip("why")
            class Never(unittest.TestCase):
                def test_d(self): pass
            class Other:
                def test_e(self): pass
            async def test_f(): pass
            class Later(unittest.IsolatedAsyncioTestCase):
                async def test_g(self): pass
            """
        )
    )
    assert names_of_tests(tree) == [("Base", "test_b"), ("More", "test_a"), ("More", "test_b"), ("Later", "test_g")]


class First(Random):
    """Chance that always gives the first, or the smallest."""

    def randint(self, a: int, b: int) -> int:
        """The smallest; digits are drawn alone."""
        assert (a, b) == (1, 9)
        return a

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """The first place."""
        return 0

    def choice(self, seq: Any) -> Any:
        """The first."""
        return seq[0]


@pytest.mark.parametrize(
    ("value", "margin", "other"),
    [
        (True, 0, False),
        (False, 0, True),
        (None, 0, True),
        (5, 0, 6),
        (5, 1.5, 9),
        (-5, 0, -6),
        (0, 0, 1),
        (2j, 0, 1 + 2j),
        (1e300, 0, 2e300),
        ("x", 0, "xa"),
        (b"x", 0, b"xe"),
        ([], 0, [1]),
        ((), 0, (1,)),
        ([5, 6], 0, [6, 6]),
        (("a", 1), 0, ("aa", 1)),
        ({}, 0, {"id": 1}),
        ({"a": 5, "b": 6}, 1, {"a": 8, "b": 6}),
        (set(), 0, {1}),
        ({5}, 9, {5, 6}),
    ],
)
def test_another_value_by_hand(value: Any, margin: float, other: Any) -> None:
    """The same type and shape, one part changed or added, further away than the margin."""
    found = _changed(value, margin, First())
    assert found == other
    assert type(found) is type(other)
    made = another(ast.parse(repr(value), mode="eval").body, margin, First())
    assert eval(ast.unparse(made)) == other


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1", (1,)),
        ("[1, 'a']", ([1, "a"],)),
        ("None", (None,)),
        ("...", None),
        ("[1, ...]", None),
        ("x", None),
        ("{[]}", None),
    ],
)
def test_literals(source: str, value: object) -> None:
    """What can be evaluated without running anything, and holds no ellipsis."""
    assert literal_value(ast.parse(source, mode="eval").body) == value


@pytest.mark.parametrize(
    ("call", "margin"),
    [
        ("f(1, 2)", 1.0),
        ("f(1, 2, 3)", 1.0),
        ("f(1, 2, places=-1)", 10.0),
        ("f(1, 2, delta=0.5)", 1.5),
        ("f(1, 2, None, 'why', 4)", 5.0),
        ("f(1, 2, delta=None)", 1.0),
        ("f(1, 2, places=n)", None),
        ("f(1, 2, delta='x')", None),
    ],
)
def test_margins_by_hand(call: str, margin: float | None) -> None:
    """What rounds to nothing at so many places, at least 1, and the delta beside it; a name says nothing."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert _margin(node) == margin
