"""Where a reply's answer is found: boxes, labels, JSON, the last formula."""

from __future__ import annotations

import pytest

from evals.graders.mathematics import read_answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"So $\boxed{12}$.", "12"),
        (r"so $\boxed 2$.", "2"),
        (r"so \boxed2", "2"),
        (r"\boxed\frac{1}{2}", r"\frac{1}{2}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{\frac{\sqrt{\frac{1}{2}}}{3}}", r"\frac{\sqrt{\frac{1}{2}}}{3}"),
        ("\\boxed{\\begin{pmatrix}\n1 \\\\\n2\n\\end{pmatrix}}", "\\begin{pmatrix}\n1 \\\\\n2\n\\end{pmatrix}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{3}, and \boxed{5}", "3 , 5"),
        (r"$x = \boxed{3}$ or $x = \boxed{5}$", "3 , 5"),
        (r"\boxed{3} is wrong, since n is odd, and so we get \boxed{5}", "5"),
        (r"\boxed{7}. The form is \boxed{}.", "7"),
        (r"\boxed{3} was a step. Final answer: 4", "4"),
        (r"Answer: 3. No: \boxed{4}", "4"),
        (r"\boxed{4}. We check our answer: 2 + 2", "4"),
        ("\\boxed{4}\nFinal answer: the value that stands above", "4"),
        ("**Final Answer: 48**", "48"),
        ("### Final Answer\n\n48", "48"),
        ("Answer:\n\\[\n\\frac{1}{2}\n\\]", r"\frac{1}{2}"),
        ("Answer:\n\\begin{pmatrix}\n1 \\\\ 2\n\\end{pmatrix}\nas said", "\\begin{pmatrix}\n1 \\\\ 2\n\\end{pmatrix}"),
        ("Final Answer: The final answer is $48$. I hope it is correct.", "$48$"),
        ("Answer: The value of $x$ is $5$.", "5"),
        ("<answer>48</answer>", "48"),
        ("9*2=18\n#### 18\n\nQuestion: A robe?\nAnswer: 3", "18"),
        ("The answer is 12 because it fits", "12 because it fits"),
        ("First 3.\nTherefore the length is $5\\sqrt{2}$.", r"5\sqrt{2}"),
        ("20 - 7 = 13", "13"),
        ('{"reasoning": "3", "answer": "5"}', "5"),
        ('```json\n{"answer": "5\\\\sqrt{2}"}\n```', r"5\sqrt{2}"),
        ('{"answer": "\\frac{3}{4}"}', r"\frac{3}{4}"),
        ('{"answer": "say \\"5\\""}', 'say "5'),
        ('{"answer": -3, "sure": true}', "-3"),
        ('{"reasoning": "..."}', '{"reasoning": "..."}'),
        ("", None),
        ("...", None),
    ],
)
def test_finds_what_was_meant(reply: str, answer: str | None) -> None:
    """The last marker of a reply counts, without what surrounds the answer behind it."""
    assert read_answer(reply) == answer
