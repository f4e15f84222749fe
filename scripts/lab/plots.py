"""Rows of strategies as a table in Markdown, and costs and accuracies as a plot in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from baton.bench.strategy_bench import StrategyRow
from baton.core.money import NANO

ALWAYS_PREFIX = "always "
"""The prefix of the rows of one worker alone."""

ORACLE = "oracle"
"""The row where the cheapest worker that is right answers; the cheapest where none is."""


def is_baseline(row: StrategyRow) -> bool:
    """Whether a row comes from the recordings, without any strategy."""
    return row.name == ORACLE or row.name.startswith(ALWAYS_PREFIX)


def mixing_ends(rows: Sequence[StrategyRow]) -> tuple[StrategyRow, StrategyRow] | None:
    """Return what random mixing is between: the best that is free, and the dearest.

    Of those that always ask one worker; None where there aren't both.
    """
    alone = [row for row in rows if row.name.startswith(ALWAYS_PREFIX)]
    free = max((row for row in alone if not row.cost), key=lambda r: r.accuracy, default=None)
    paid = max((row for row in alone if row.cost), key=lambda r: r.cost, default=None)
    return None if free is None or paid is None else (free, paid)


def random_mixing(rows: Sequence[StrategyRow], cost: int) -> float | None:
    """Return the accuracy of random routing at this cost; None where there are no ends."""
    if (found := mixing_ends(rows)) is None:
        return None
    free, paid = found
    share = min(1.0, cost / paid.cost)
    return free.accuracy + share * (paid.accuracy - free.accuracy)


def format_markdown(rows: Sequence[StrategyRow]) -> str:
    """Write rows as a table in Markdown, with what random mixing reaches at the same cost."""
    lines = [
        "| strategy | right | 95 % | dollars | in the cloud | random mixing at that cost |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        low, high = row.interval
        chance = None if is_baseline(row) else random_mixing(rows, row.cost)
        cells = [
            row.name,
            f"{row.accuracy * 100:.2f} %",
            f"{low * 100:.1f} to {high * 100:.1f}",
            f"${row.cost / 10**9:.4f}",
            f"{(1 - row.local_share) * 100:.1f} %",
            "" if chance is None else f"{chance * 100:.2f} %",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _curve(row: StrategyRow) -> str:
    """Return the strategy whose curve a row is on ("hybrid, 20 %"), or ""."""
    return "" if is_baseline(row) else row.name.partition(",")[0]


def make_plot(title: str, rows: Sequence[StrategyRow]) -> Plot:
    """Return what to draw: every row that could be graded."""
    points = [
        Point(row.name, row.cost, row.accuracy, *row.interval, is_baseline(row), _curve(row))
        for row in rows
        if row.graded
    ]
    found = mixing_ends(rows)
    line = () if found is None else tuple((row.cost, row.accuracy) for row in found)
    return Plot(title, tuple(points), line)


_POINT_MARKS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Point:
    """One strategy: what it cost in nano-dollars, and its accuracy with its interval.

    A `baseline` is drawn hollow. Points of one `curve` are joined, from the cheapest on.
    """

    name: str
    cost: int
    accuracy: float
    low: float
    high: float
    baseline: bool = False
    curve: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Points, and the ends of the line of random mixing: (cost, accuracy) of each."""

    title: str
    points: tuple[Point, ...]
    line: tuple[tuple[int, float], ...] = ()


def legend(plot: Plot) -> Iterator[tuple[str, Point]]:
    """Give each point its letter."""
    return zip(_POINT_MARKS, plot.points, strict=False)


def _bounds(plot: Plot) -> tuple[float, float, float]:
    """Return the highest cost, and the lowest and highest accuracy to show."""
    levels = [level for point in plot.points for level in (point.low, point.high)]
    bottom, top = min(levels), max(levels)
    room = max(0.01, (top - bottom) * 0.05)
    most = max([point.cost for point in plot.points] + [cost for cost, _ in plot.line])
    return float(most or 1), max(0.0, bottom - room), min(1.0, top + room)


def axis_text(nanos: float) -> str:
    """Write an amount on an axis."""
    return f"${nanos / NANO:.3g}"


# As a picture


_SVG_WIDTH, _SVG_HEIGHT, _LEGEND_LINE = 760, 440, 18
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 44, 50


def draw_svg(plot: Plot) -> str:
    """Draw a plot as SVG."""
    most, bottom, top = _bounds(plot)

    def x(cost: float) -> float:
        return round(_LEFT + cost / most * (_SVG_WIDTH - _LEFT - _RIGHT), 1)

    def y(level: float) -> float:
        return round(_TOP + (top - level) / (top - bottom) * (_SVG_HEIGHT - _TOP - _BOTTOM), 1)

    whole = _SVG_HEIGHT + _LEGEND_LINE * (len(plot.points) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SVG_WIDTH} {whole}" '
        f'width="{_SVG_WIDTH}" height="{whole}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(plot.title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _svg_text(_LEFT, 24, plot.title, size=15),
    ]
    for tick in range(6):
        level, cost = bottom + (top - bottom) * tick / 5, most * tick / 5
        parts += [
            f'<path d="M{_LEFT} {y(level)}H{_SVG_WIDTH - _RIGHT}" stroke="#e0e0e0"/>',
            _svg_text(_LEFT - 8, y(level) + 4, f"{level * 100:.1f} %", "end"),
            _svg_text(x(cost), _SVG_HEIGHT - _BOTTOM + 20, axis_text(cost), "middle"),
        ]
    parts.append(_svg_text(_SVG_WIDTH - _RIGHT, _SVG_HEIGHT - 10, "what all questions cost", "end"))
    if len(plot.line) == 2:
        (cost, level), (last_cost, last_level) = plot.line
        ends = f'x1="{x(cost)}" y1="{y(level)}" x2="{x(last_cost)}" y2="{y(last_level)}"'
        parts.append(f'<line {ends} stroke="#8a8a8a" stroke-dasharray="5 4"/>')
    for joined in _curves(plot):
        way = "L".join(f"{x(point.cost)} {y(point.accuracy)}" for point in joined)
        parts.append(f'<path d="M{way}" stroke="#0b62a4" stroke-opacity="0.5" fill="none"/>')
    for number, (mark, point) in enumerate(legend(plot), start=1):
        across, down = x(point.cost), y(point.accuracy)
        colour, fill = ("#6a6a6a", "#ffffff") if point.baseline else ("#0b62a4", "#0b62a4")
        parts += [
            f'<path d="M{across} {y(point.low)}V{y(point.high)}" stroke="{colour}"/>',
            f'<circle cx="{across}" cy="{down}" r="4.5" stroke="{colour}" fill="{fill}"/>',
            _svg_text(across + 8, down - 6, mark),
            _svg_text(
                _LEFT, _SVG_HEIGHT + _LEGEND_LINE * number, f"{mark}   {_legend_text(point)}"
            ),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _curves(plot: Plot) -> list[list[Point]]:
    """Return the points that are joined, in the order of their costs."""
    found: dict[str, list[Point]] = {}
    for point in plot.points:
        if point.curve:
            found.setdefault(point.curve, []).append(point)
    curves = (sorted(points, key=lambda point: point.cost) for points in found.values())
    return [points for points in curves if len(points) > 1]


def _legend_text(point: Point) -> str:
    interval = f"{point.low * 100:.1f} to {point.high * 100:.1f}"
    return f"{point.name}: {point.accuracy * 100:.1f} % ({interval}), {axis_text(point.cost)}"


def _svg_text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    where = f'x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {where} fill="#1a1a1a">{escape(text)}</text>'
