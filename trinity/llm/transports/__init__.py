"""One file per way of getting an answer."""
