"""Runs against each other: which rows, paired how, what differs besides, and how it is shown."""
