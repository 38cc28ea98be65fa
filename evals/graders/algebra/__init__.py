"""Reads answers to problems of mathematics and tells whether two of them mean the same."""
