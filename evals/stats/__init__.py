"""Intervals, paired comparisons and detectable differences, from plain numbers."""
