"""The themes: Baton's own, each calm and with one accent colour, and Textual's made readable."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

if TYPE_CHECKING:
    from textual.app import App

DARK = Theme(
    name="dark",
    primary="#83c0b0",
    accent="#d0b98a",
    warning="#d9b36c",
    error="#e08a83",
    success="#96c08d",
    foreground="#d8dcdf",
    background="#14171a",
    surface="#1b1f23",
    panel="#242a2f",
    boost="#20252a",
    variables={"muted": "#98a1a8", "rule": "#333b42"},
)
LIGHT = Theme(
    name="light",
    primary="#1c6a5a",
    accent="#7a5a12",
    warning="#8a5a00",
    error="#a8322a",
    success="#2f6b2a",
    foreground="#22272b",
    background="#fbfaf7",
    surface="#f1efea",
    panel="#e6e3dc",
    boost="#f1efea",
    dark=False,
    variables={"muted": "#5b646b", "rule": "#d0ccc3"},
)
HIGH_CONTRAST = Theme(
    name="high-contrast",
    primary="#ffd700",
    accent="#ffd700",
    warning="#ffd700",
    error="#ff9c94",
    success="#9dff8f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#262626",
    boost="#262626",
    variables={"muted": "#e0e0e0", "rule": "#a0a0a0"},
)
OWN = (DARK, LIGHT, HIGH_CONTRAST)

MIN_CONTRAST = 4.5
"""Between text and every ground that it stands on, as WCAG 2 asks."""

BLEND_STEPS = 20

_TEXT_COLOURS = ("primary", "secondary", "accent", "warning", "error", "success")


def names() -> tuple[str, ...]:
    """Return the names of all themes that can be set, Baton's own first."""
    from baton.platform.settings import ThemeName

    return get_args(ThemeName)


@cache
def theme_named(name: str) -> Theme:
    """Return one of Baton's own themes, or one of Textual's with all the colours that Baton uses.

    Its colours are moved towards white or black as far as they must be to be read.
    """
    own = {theme.name: theme for theme in OWN}
    if name in own:
        return own[name]
    theme = BUILTIN_THEMES[name]
    colours = theme.to_color_system().generate()
    grounds = [Color.parse(colours[name]) for name in ("background", "surface", "panel")]
    end = Color.parse("#ffffff" if theme.dark else "#000000")

    def readable(colour: str) -> Color:
        parsed, blended = Color.parse(colour), Color.parse(colour)
        for step in range(BLEND_STEPS + 1):
            blended = parsed.blend(end, step / BLEND_STEPS)
            if all(contrast(blended, ground) >= MIN_CONTRAST for ground in grounds):
                break
        return blended

    text = readable(colours["foreground"])
    muted = readable(text.blend(grounds[0], 0.35).hex)
    shown: dict[str, Any] = {key: readable(colours[key]).hex for key in _TEXT_COLOURS}
    return Theme(
        name=name,
        **shown,
        foreground=text.hex,
        background=grounds[0].hex,
        surface=grounds[1].hex,
        panel=grounds[2].hex,
        boost=grounds[1].hex,
        dark=theme.dark,
        variables={"muted": muted.hex, "rule": text.blend(grounds[0], 0.75).hex},
    )


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2 reckons it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Color) -> float:
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def description(name: str) -> str:
    """Say whose theme it is, and whether it is dark."""
    if name in [theme.name for theme in OWN]:
        return "Baton's own"
    return "dark" if BUILTIN_THEMES[name].dark else "light"


def show_theme(app: App[Any], name: str) -> None:
    """Show a theme from now on."""
    if name != app.theme:
        app.register_theme(theme_named(name))
        app.theme = name
