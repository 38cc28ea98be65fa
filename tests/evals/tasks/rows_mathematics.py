"""Rows in the columns of benchmarks of mathematics, made here: sums and powers."""

from __future__ import annotations

from typing import Any


def gsm8k(count: int) -> list[dict[str, Any]]:
    """Rows as in openai/gsm8k, with one to three calculations."""
    return [
        {
            "question": f"Ann has {index} apples and buys {index % 3 + 1} bags of 1,000. How many has she?",
            "answer": "\n".join(f"Bag {bag}: <<1*1000=1000>>1,000." for bag in range(index % 3 + 1))
            + f"\n#### {index + 1000 * (index % 3 + 1):,}",
        }
        for index in range(count)
    ]


def math500(count: int) -> list[dict[str, Any]]:
    """Rows as in HuggingFaceH4/MATH-500."""
    return [
        {
            "problem": f"Simplify $\\frac{{x^{{{index + 2}}}}}{{x}}$.",
            "solution": f"Subtract the exponents: $\\boxed{{x^{{{index + 1}}}}}$.",
            "answer": f"x^{{{index + 1}}}",
            "subject": "Algebra" if index % 2 else "Precalculus",
            "level": index % 5 + 1,
            "unique_id": f"test/algebra/{index}.json",
        }
        for index in range(count)
    ]


def math_train(count: int) -> list[dict[str, Any]]:
    """Rows as in the training problems of MATH: another name of the subject, a level in words, no answer."""
    return [
        {
            "problem": f"Simplify $y^{{{index}}} y$.",
            "level": f"Level {index % 5 + 1}",
            "type": "Algebra",
            "solution": f"Add one: $\\boxed{{y^{{{index + 1}}}}}$.",
        }
        for index in range(count)
    ]


def aime(count: int) -> list[dict[str, Any]]:
    """Rows as in HuggingFaceH4/aime_2024."""
    return [
        {
            "id": 60 + index,
            "problem": f"Find the remainder when ${index}$ is divided by $1000$.",
            "solution": f"It is \\boxed{{{index:03}}}.",
            "answer": f"{index:03}",
            "url": f"https://example.org/2024_AIME_I_Problems/Problem_{index % 15 + 1}",
            "year": "2024",
        }
        for index in range(count)
    ]


def rlpr(count: int) -> list[dict[str, Any]]:
    """Rows as in openbmb/RLPR-Evaluation: formulas, options and words in turn."""
    kinds = (
        ("Math-500_Avg2", "math", "Simplify $z^{{{}}} z$.", r"z^{{{}}}"),
        ("MMLUPro-1000_Avg2", "choice", "Which is {}?\nA. none\nB. this one", "B"),
        ("TheoremQA_Avg2", "general", "What does a body number {} at rest do?", "The body {} stays at rest"),
    )
    rows = []
    for index in range(count):
        source, ability, question, target = kinds[index % len(kinds)]
        request = "\nPlease reason step by step, and put your final answer within \\boxed{}."
        truth = target.format(index + 1 if ability == "math" else index)
        rows.append(
            {
                "data_source": source,
                "prompt": [
                    {"role": "system", "content": "Be good."},
                    {"role": "user", "content": question.format(index) + request},
                ],
                "ability": ability,
                "reward_model": {"ground_truth": truth, "style": "rule"},
                "extra_info": {"index": str(index), "split": "test"},
                "uid": f"{source}-{index}",
            }
        )
    return rows
