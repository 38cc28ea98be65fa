"""Grades programs: finds them in answers, runs them in a sandbox, and compares what comes out outside of it."""

from __future__ import annotations

from evals.graders.code.asserts import grade_asserts
from evals.graders.code.calls import grade_calls
from evals.graders.code.checked import grade_checked
from evals.graders.code.extract import extract_code
from evals.graders.code.stdio import grade_stdio
from evals.graders.code.unit_tests import grade_unit_tests
from evals.graders.code.verdict import VERSION, CallTest, StdioTest, Verdict

__all__ = [
    "VERSION",
    "CallTest",
    "StdioTest",
    "Verdict",
    "extract_code",
    "grade_asserts",
    "grade_calls",
    "grade_checked",
    "grade_stdio",
    "grade_unit_tests",
]
