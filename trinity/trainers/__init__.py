"""How a policy's parameters `theta` are fitted to expected reward."""
