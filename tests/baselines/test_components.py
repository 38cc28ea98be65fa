"""Named components: which text counts, what is refused, and how placeholders are filled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.components import Components, load
from trinity.errors import ConfigError

PARTS = {"generation_system": (), "refine": ("input", "history")}


def components(refine: str) -> Components:
    """One component with two placeholders."""
    return Components({"generation_system": "Think.", "refine": refine}, PARTS)


class TestFill:
    """Placeholders."""

    def test_own_placeholders_alone(self) -> None:
        """Only the component's placeholders are replaced; braces of formulas and JSON stay."""
        made = components('{input}: \\boxed{x}, {"a": {}}, {0}, {other}, {history}')
        assert made.fill("refine", input="Q", history="H") == 'Q: \\boxed{x}, {"a": {}}, {0}, {other}, H'

    def test_filled_text_is_not_read_again(self) -> None:
        """What an answer says about placeholders, groups or formats stays what it says."""
        made = components("{input}|{history}")
        assert made.fill("refine", input="{history} \\1 \\g<0> {0.__class__}", history="{input}") == (
            "{history} \\1 \\g<0> {0.__class__}|{input}"
        )

    def test_without_placeholders(self) -> None:
        """A component without placeholders stays as it is, whatever braces it holds."""
        made = Components({"generation_system": "{} {input}"}, {"generation_system": ()})
        assert made.fill("generation_system") == "{} {input}"

    @given(st.text(), st.text())
    def test_any_text(self, question: str, history: str) -> None:
        """Any two texts arrive whole."""
        assert components("<{input}><{history}>").fill("refine", input=question, history=history) == (
            f"<{question}><{history}>"
        )

    def test_bytes(self) -> None:
        """The size of all texts is counted in bytes."""
        assert components("é{input}{history}").n_bytes == len("Think.") + 2 + len("{input}{history}")


class TestLoad:
    """Which text a component has."""

    def test_shipped_text(self) -> None:
        """Without a text of one's own the shared file is taken."""
        assert load("cot", {"generation_system": ()})["generation_system"].startswith("Do not answer at once.")

    def test_own_text(self) -> None:
        """A text of one's own is taken as it is, white space included."""
        own = {"generation_system": " Be brief.\n"}
        assert load("cot", {"generation_system": ()}, own)["generation_system"] == " Be brief.\n"

    def test_unknown_component(self) -> None:
        """A name that is no component is refused with the nearest one."""
        with pytest.raises(ConfigError, match=r"methods.cot.components.generation_sistem: .*generation_system"):
            load("cot", {"generation_system": ()}, {"generation_sistem": "x"})

    @pytest.mark.parametrize("text", ["", "  ", None, 3, ["x"]])
    def test_no_text(self, text: object) -> None:
        """What is no filled text is refused."""
        with pytest.raises(ConfigError, match="give the text of the prompt"):
            load("cot", {"generation_system": ()}, {"generation_system": text})

    @pytest.mark.parametrize("text", ["only {input}", "{input} {history} {history}"])
    def test_placeholders_once(self, text: str) -> None:
        """A text that lacks a placeholder would drop an answer, one that repeats it would cost more than foreseen."""
        parts = {"refine": ("input", "history")}
        with pytest.raises(ConfigError, match=r"methods.m.components.refine must hold \{history\} once"):
            load("m", parts, {"refine": text})
