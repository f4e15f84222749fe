"""What a bench came to: a table for people, JSON, Markdown, and the points of a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baton.bench.strategy_bench import StrategyRow, mixing_ends, random_mixing
from baton.cli.bench.cost_plot import Plot, Point
from baton.cli.stores import format_columns
from baton.core.money import format_usd
from baton.core.sanitiser import one_line

SCHEMA = 1
_WIDTH = 80
_HEAD = ["strategy", "right", "95 %", "tokens", "dollars", "seconds", "calls", "local"]


def table(rows: Sequence[StrategyRow]) -> str:
    """Write rows in columns; tokens, seconds and calls are per question, dollars for all."""
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_HEAD[1:], *cells, strict=True)]
    room = _WIDTH - sum(widths) - 2 * len(widths)
    names = [one_line(row.name, room) for row in rows]
    return format_columns(
        [_HEAD, *([name, *line] for name, line in zip(names, cells, strict=True))]
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
    """Say what the table alone doesn't."""
    told = []
    for row in rows:
        chance = random_mixing(rows, row.cost)
        if chance is not None and not row.baseline:
            more = (row.accuracy - chance) * 100
            told.append(
                f"{row.name}: random mixing reaches {chance * 100:.1f} % at that cost "
                f"({more:+.1f} points)."
            )
        if row.graded < row.questions:
            missing = row.questions - row.graded
            told.append(f"{row.name}: {missing} of {row.questions} could not be graded.")
        if row.refused:
            told.append(f"{row.name}: {row.refused} times the ceiling forbade a call.")
    return told


def markdown(rows: Sequence[StrategyRow]) -> str:
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


def as_object(row: StrategyRow, rows: Sequence[StrategyRow]) -> dict[str, Any]:
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


def plot(title: str, rows: Sequence[StrategyRow]) -> Plot:
    """Return what to draw: every row that could be graded."""
    points = [
        Point(row.name, row.cost, row.accuracy, *row.interval, row.baseline, _curve(row))
        for row in rows
        if row.graded
    ]
    found = mixing_ends(rows)
    line = () if found is None else tuple((row.cost, row.accuracy) for row in found)
    return Plot(title, tuple(points), line)
