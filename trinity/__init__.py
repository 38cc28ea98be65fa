"""A coordinator that learns which language model to ask in which role, and the runs that show whether it pays."""

__version__ = "0.1.0"
