"""Places for point labels in a plot so that no label covers a point or another label."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

RADII = (9.0, 16.0, 26.0, 38.0, 52.0, 68.0, 88.0, 112.0, 140.0, 172.0)
DIRECTIONS = 16


class Box(NamedTuple):
    """A rectangle in pixels, the origin at the lower left."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """Area that both cover, in square pixels."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def outside(self, frame: Box) -> float:
        """Area that does not lie in `frame`, in square pixels."""
        return (self.right - self.left) * (self.top - self.bottom) - self.overlap(frame)


class Point(NamedTuple):
    """A point in pixels and the size of its label."""

    x: float
    y: float
    width: float
    height: float


def place(points: Sequence[Point], frame: Box, taken: Sequence[Box], soft: Sequence[Box]) -> list[Box]:
    """A box per label, near its point.

    Args:
        points: what is labelled; labels of crowded points should come first.
        frame: what labels must stay inside of.
        taken: what labels must not cover, such as the markers.
        soft: what labels should not cover, such as error bars.

    Returns:
        One box per point, in the order of `points`. Where all places overlap something, the least bad one.
    """
    used, boxes = list(taken), []
    for point in points:
        others = [other for other in points if other is not point]
        best, least = Box(0.0, 0.0, 0.0, 0.0), math.inf
        for box in _candidates(point):
            found = _badness(box, point, others, frame, used, soft, least)
            if found < least:
                best, least = box, found
        boxes.append(best)
        used.append(best)
    return boxes


def _candidates(point: Point) -> Iterator[Box]:
    """Boxes around a point, near ones first, those to its right and left before those above and below."""
    for radius in RADII:
        for step in range(DIRECTIONS):
            angle = 2 * math.pi * step / DIRECTIONS
            x, y = point.x + radius * math.cos(angle), point.y + radius * math.sin(angle)
            left = x - point.width * (1 - math.cos(angle)) / 2
            bottom = y - point.height * (1 - math.sin(angle)) / 2
            yield Box(left, bottom, left + point.width, bottom + point.height)


def _badness(
    box: Box, point: Point, others: Sequence[Point], frame: Box, used: Sequence[Box], soft: Sequence[Box], limit: float
) -> float:
    """How bad a place is: covering and leaving the frame, then lying nearer to another point, error bars, distance.

    What is not below `limit` may be told too good, for nobody takes it.
    """
    bad = max(distance(box, point), RADII[0]) + 1000.0 * box.outside(frame)
    if bad < limit:
        bad += 1000.0 * sum(box.overlap(other) for other in used)
    if bad < limit:
        bad += 200.0 * strays(box, point, others) + 20.0 * sum(box.overlap(other) > 0 for other in soft)
    return bad


def strays(box: Box, point: Point, others: Sequence[Point]) -> int:
    """How many other points a label is as near to as to its own."""
    near = distance(box, point)
    return sum(distance(box, other) <= near for other in others)


def distance(box: Box, point: Point) -> float:
    """From a point to the nearest edge of a box, in pixels."""
    dx = max(box.left - point.x, 0.0, point.x - box.right)
    dy = max(box.bottom - point.y, 0.0, point.y - box.top)
    return math.hypot(dx, dy)
