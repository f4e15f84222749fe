"""The looks: dark, light and high contrast, each calm and with one accent colour."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="dark",
    primary="#83c0b0",
    secondary="#83c0b0",
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
    secondary="#1c6a5a",
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
    secondary="#ffd700",
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
ALL = (DARK, LIGHT, HIGH_CONTRAST)
