"""Draws a training run's `log.jsonl` as SVG: its loss, and its reward where it has one.

    python scripts/training/conductor/learning_curve.py DIR/log.jsonl

writes `curve.svg` beside it, as `train.py` does itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

MEASURES = ("loss", "reward")
"""What is drawn, each in a panel of its own, over the examples that were seen."""
FILE_NAME = "curve.svg"

Curve = Sequence[tuple[float, float]]
"""Points (examples seen, value), in the order of the examples."""

TICKS = 5
MAX_POINTS = 700
"""As many as there are pixels to show them."""
_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 40, 40


def write(log: Path) -> Path | None:
    """Draw a log beside it; return the file, None where there is nothing to draw yet."""
    curves = read_curves(log.read_text("utf-8").splitlines())
    if not curves:
        return None
    file = log.with_name(FILE_NAME)
    file.write_text(as_svg(f"Training in {log.absolute().parent.name}", curves), "utf-8")
    return file


def read_curves(lines: Iterable[str]) -> dict[str, Curve]:
    """Return a log's curves of two points or more, by measure.

    A run that was broken off continues from its last checkpoint: what it logged after that is
    replaced by what it logs when it comes there again. A line that was cut off is left out.
    """
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in MEASURES}
    for line in lines:
        entry = _entry(line)
        for name in MEASURES:
            if isinstance(value := entry.get(name), int | float) and math.isfinite(value):
                examples, curve = float(entry.get("examples", 0)), curves[name]
                while curve and curve[-1][0] >= examples:
                    curve.pop()
                curve.append((examples, float(value)))
    return {name: curve for name, curve in curves.items() if len(curve) > 1}


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def as_svg(title: str, curves: dict[str, Curve]) -> str:
    """Draw curves below each other."""
    height = _HEIGHT * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(_LEFT, 22, title, size=15),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        parts += [f'<g transform="translate(0 {number * _HEIGHT})">', *_panel(name, curve), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(name: str, curve: Curve) -> list[str]:
    """Draw one curve with its axes."""
    every = math.ceil(len(curve) / MAX_POINTS)
    shown = [*curve[:-1:every], curve[-1]]
    most = shown[-1][0] or 1.0
    values = [value for _, value in shown]
    bottom, top = min(values), max(values)
    span = top - bottom or 1.0

    def x(examples: float) -> float:
        return round(_LEFT + examples / most * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        return round(_TOP + (bottom + span - value) / span * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = []
    for tick in range(TICKS + 1):
        value, examples = bottom + span * tick / TICKS, most * tick / TICKS
        parts += [
            f'<path d="M{_LEFT} {y(value)}H{_WIDTH - _RIGHT}" stroke="#e0e0e0"/>',
            _text(_LEFT - 8, y(value) + 4, f"{value:.3g}", "end"),
            _text(x(examples), _HEIGHT - _BOTTOM + 18, f"{examples:,.0f}", "middle"),
        ]
    way = "L".join(f"{x(examples)} {y(value)}" for examples, value in shown)
    last = f"{name} {shown[-1][1]:.3g}, over examples"
    return [
        *parts,
        f'<path d="M{way}" stroke="#0b62a4" stroke-width="1.5" fill="none"/>',
        _text(_WIDTH - _RIGHT, _TOP - 12, last, "end"),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    where = f'x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {where} fill="#1a1a1a">{escape(text)}</text>'


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(write(Path(sys.argv[1])) or "The log has no two points to draw yet.")
