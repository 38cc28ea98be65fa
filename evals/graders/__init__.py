"""Graders: pure functions from a model's text to an answer in canonical form."""
