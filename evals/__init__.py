"""Benchmarks, graders, statistics and reports."""
