"""Train, validation and test must share no item: neither an id nor a text, across all tasks of a run."""

from __future__ import annotations

from collections.abc import Iterable

from trinity.canonical import folded, sha256
from trinity.errors import SplitError
from trinity.types import Item, Split


def check_disjoint(items: Iterable[tuple[Split, Item]]) -> None:
    """Refuse items that two splits share.

    Raises:
        SplitError: an id or a folded text stands in two splits, or an id twice in one; names both places.
    """
    ids: dict[tuple[str, str], Split] = {}
    texts: dict[str, tuple[Split, str]] = {}
    for split, item in items:
        key = (item.task, item.item_id)
        if key in ids:
            where = split if ids[key] == split else f"{ids[key]} and {split}"
            raise SplitError(
                f"task {item.task}: item {item.item_id} stands twice (in {where}); give every item its own id"
            )
        ids[key] = split
        name = f"{item.task}/{item.item_id}"
        other, other_name = texts.setdefault(sha256(folded(item.prompt)), (split, name))
        if other != split:
            raise SplitError(
                f"splits overlap: {other_name} ({other}) and {name} ({split}) ask the same; "
                "remove one of them or put both into one split"
            )
