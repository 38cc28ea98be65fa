"""The colours of pages and pictures, each for a light and a dark background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Colour(NamedTuple):
    """One colour as `#rrggbb` on light and on dark paper; no two have the same light form."""

    light: str
    dark: str


PALETTE: Mapping[str, Colour] = {
    "paper": Colour("#ffffff", "#14171b"),
    "panel": Colour("#f5f6f8", "#1d2126"),
    "ink": Colour("#1b1f24", "#e4e7eb"),
    "soft": Colour("#595f69", "#a3abb6"),
    "rule": Colour("#dde0e4", "#363c44"),
    "link": Colour("#0b5cad", "#7db8f0"),
    # After Okabe and Ito's palette, told apart with every common colour blindness; orange a little darker.
    "blue": Colour("#0072b2", "#5ab1ea"),
    "orange": Colour("#c98500", "#efb03a"),
    "green": Colour("#009e73", "#2dc499"),
    "vermillion": Colour("#d55e00", "#ff8b4d"),
    "purple": Colour("#b5568c", "#e29cc4"),
    "sky": Colour("#56b4e9", "#2f7cab"),
    # Words that say right or wrong: dark enough to be read as text.
    "right": Colour("#00734f", "#2ccb9c"),
    "broken": Colour("#b34700", "#ff9760"),
}
"""Name of a CSS variable -> colour."""

SERIES = ("blue", "orange", "green", "purple", "sky", "vermillion")
"""Colours of agents and other things without a colour of their own, in the order in which they are given out."""


def light(name: str) -> str:
    """The light form of a colour, which pictures are drawn with."""
    return PALETTE[name].light


def variables() -> str:
    """CSS that defines every colour as a variable: the reader's preference, unless `data-theme` says otherwise."""
    day, night = (
        "".join(f"--{name}:{form};" for name, form in zip(PALETTE, forms, strict=True))
        for forms in zip(*PALETTE.values(), strict=True)
    )
    return (
        f":root{{{day}color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{night}color-scheme:dark}}}}"
        f":root[data-theme=dark]{{{night}color-scheme:dark}}"
    )


def themed(svg: str) -> str:
    """A picture's text with each colour of the palette as its variable; its light form is what readers without see."""
    for name, colour in PALETTE.items():
        svg = svg.replace(colour.light, f"var(--{name}, {colour.light})")
    return svg
