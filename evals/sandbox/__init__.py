"""Runs Python programs that nobody trusts: bounded, cut off from everything, and unable to say how they are judged."""
