"""The coordinator: what it reads (encoder), how it decides (heads, policy) and how a turn runs (protocol)."""
