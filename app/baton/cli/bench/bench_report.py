"""What a bench came to: a table, JSON, Markdown, and a plot in characters or as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from baton.bench import StrategyRow, mixing_ends, random_mixing
from baton.cli.stores import format_columns
from baton.core.money import NANO, format_usd
from baton.core.sanitiser import one_line

SCHEMA = 1
_WIDTH = 80
_COLUMNS = ["strategy", "right", "95 %", "tokens", "dollars", "seconds", "calls", "local"]


def format_table(rows: Sequence[StrategyRow]) -> str:
    """Write rows in columns; tokens, seconds and calls are per question, dollars for all."""
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_COLUMNS[1:], *cells, strict=True)]
    room = _WIDTH - sum(widths) - 2 * len(widths)
    names = [one_line(row.name, room) for row in rows]
    return format_columns(
        [_COLUMNS, *([name, *line] for name, line in zip(names, cells, strict=True))]
    )


def _cells(row: StrategyRow) -> list[str]:
    low, high = row.interval
    count = max(1, row.questions)
    graded = bool(row.graded)
    return [
        f"{row.accuracy * 100:.1f} %" if graded else "-",
        f"{low * 100:.1f}-{high * 100:.1f}" if graded else "-",
        f"{(row.tokens_in + row.tokens_out) / count:,.0f}",
        f"${row.cost / 10**9:,.4f}" if row.cost else "$0",
        f"{row.seconds / count:.2f}" if not row.baseline else "",
        f"{row.calls / count:.2f}",
        f"{row.local_share * 100:.0f} %",
    ]


def remarks(rows: Sequence[StrategyRow]) -> list[str]:
    """Return remarks on what the table doesn't show."""
    lines = []
    for row in rows:
        chance = random_mixing(rows, row.cost)
        if chance is not None and not row.baseline:
            more = (row.accuracy - chance) * 100
            lines.append(
                f"{row.name}: random mixing reaches {chance * 100:.1f} % at that cost "
                f"({more:+.1f} points)."
            )
        if row.graded < row.questions:
            missing = row.questions - row.graded
            lines.append(f"{row.name}: {missing} of {row.questions} could not be graded.")
        if row.refused:
            lines.append(f"{row.name}: {row.refused} times the ceiling forbade a call.")
    return lines


def format_markdown(rows: Sequence[StrategyRow]) -> str:
    """Write rows as a table in Markdown, with what random mixing reaches at the same cost."""
    lines = [
        "| strategy | right | 95 % | dollars | in the cloud | random mixing at that cost |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        low, high = row.interval
        chance = None if row.baseline else random_mixing(rows, row.cost)
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


def row_object(row: StrategyRow, rows: Sequence[StrategyRow]) -> dict[str, Any]:
    """Return a row as `--json` prints it; the names are fixed."""
    low, high = row.interval
    count = max(1, row.questions)
    return {
        "strategy": row.name,
        "baseline": row.baseline,
        "questions": row.questions,
        "graded": row.graded,
        "accuracy": row.accuracy if row.graded else None,
        "low": low,
        "high": high,
        "tokens_in": row.tokens_in,
        "tokens_out": row.tokens_out,
        "cost_usd": format_usd(row.cost),
        "seconds": round(row.seconds, 3),
        "calls_per_question": row.calls / count,
        "local_share": row.local_share,
        "refused": row.refused,
        "random_mixing": random_mixing(rows, row.cost),
    }


def _curve(row: StrategyRow) -> str:
    """Return the strategy whose curve a row is on ("hybrid, 20 %"), or ""."""
    return "" if row.baseline else row.name.partition(",")[0]


def make_plot(title: str, rows: Sequence[StrategyRow]) -> Plot:
    """Return what to draw: every row that could be graded."""
    points = [
        Point(row.name, row.cost, row.accuracy, *row.interval, row.baseline, _curve(row))
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


# In a terminal


def draw_text(plot: Plot, width: int = 78, height: int = 16) -> str:
    """Draw a plot for a terminal."""
    if not plot.points:
        return ""
    most, bottom, top = _bounds(plot)
    margin = 8
    across = width - margin - 1
    cells = [[" "] * across for _ in range(height)]

    def put(cost: float, accuracy: float, mark: str) -> None:
        column = round(cost / most * (across - 1))
        row = round((top - accuracy) / (top - bottom) * (height - 1))
        beside = [*range(column, across), *reversed(range(column))] if mark != "." else [column]
        free = next((place for place in beside if cells[row][place] in " ."), None)
        if free is not None:
            cells[row][free] = mark

    if len(plot.line) == 2:
        (cost, level), (last_cost, last_level) = plot.line
        for step in range(across + 1):
            part = step / across
            put(cost + part * (last_cost - cost), level + part * (last_level - level), ".")
    for mark, point in legend(plot):
        put(point.cost, point.accuracy, mark)
    lines = []
    for row, drawn in enumerate(cells):
        level = top - (top - bottom) * row / (height - 1)
        label = f"{level * 100:.1f} %" if row % 5 == 0 or row == height - 1 else ""
        lines.append(f"{label:>{margin}}|{''.join(drawn)}".rstrip())
    lines.append(" " * margin + "+" + "-" * across)
    right = axis_text(most)
    lines.append(" " * margin + " $0" + right.rjust(across - 2))
    return "\n".join(lines)


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
