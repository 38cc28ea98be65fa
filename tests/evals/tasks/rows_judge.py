"""Rows in the columns of MT-Bench's two copies on the hub, made here."""

from __future__ import annotations

from typing import Any

CATEGORIES = ("writing", "math", "coding", "stem")


def mt_bench(count: int) -> list[dict[str, Any]]:
    """Rows as in lighteval/mt-bench, every category in turn; all but those for writing have references."""
    return [
        {
            "question_id": 200 + index,
            "category": CATEGORIES[index % 4],
            "turns": [f"What is {index} plus {index}?", f"And {index} times two?"],
            "reference": None if index % 4 == 0 else [f"{2 * index}.", f"Also {2 * index}."],
        }
        for index in range(count)
    ]


def mt_bench_h4(count: int) -> list[dict[str, Any]]:
    """The same rows as in HuggingFaceH4/mt_bench_prompts, whose numbers are others."""
    return [
        {
            "prompt": row["turns"],
            "reference": row["reference"] or [],
            "category": row["category"],
            "prompt_id": 7919 * row["question_id"],
        }
        for row in mt_bench(count)
    ]
