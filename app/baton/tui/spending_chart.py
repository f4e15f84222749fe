"""What was spent, drawn: a bar for each day, a sign for each worker, the ceiling as a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta

from textual.content import Content

from baton.core.feedback import GradedAnswer
from baton.core.ledger_types import DayCharge
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.presentation.run_story import CardsById, worker_name

DAYS = 30
ROWS = 6
"""How many days are drawn, and how many rows the highest bar has."""

SIGNS = ("█", "▓", "▒", "░")
COLOURS = ("$primary", "$accent", "$success", "$muted")
OTHERS = "others"
CEILING = "╌"


def draw_spending(
    charges: Sequence[DayCharge],
    roster: CardsById,
    today: date,
    ceiling: int | None,
    columns: int,
) -> list[Content]:
    """Return the lines of the chart, none wider than `columns`, [] where nothing was spent.

    The three that cost most have a sign each, the
    others share one. Each day with any cost shows at least one cell.
    """
    days = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    spent = _spent_by_day([charge for charge in charges if charge.charged > 0], roster)
    totals = Counter[str]()
    for day in days:
        totals.update(spent.get(day.isoformat(), {}))
    if not totals:
        return []
    workers = list(totals)
    workers.sort(key=lambda name: (name == OTHERS, -totals[name], name))
    top = max([*(spent.get(day.isoformat(), Counter()).total() for day in days), ceiling or 0])
    bars = [_bar(spent.get(day.isoformat(), Counter()), workers, top) for day in days]
    level = -(-ceiling * ROWS // top) if ceiling else None
    labels = {level: show_usd(ceiling or 0), ROWS: show_usd(top)}
    margin = max(map(len, labels.values())) + 3
    width = 2 if columns >= margin + 2 * DAYS else 1
    lines = []
    for row in range(ROWS, 0, -1):
        label = f"{labels.get(row, ''):>{margin - 2}} "
        cells = [_cell(bar, row, row == level, width) for bar in bars]
        lines.append(Content.assemble((label, "$muted"), "▕", *cells))
    first, last = f"{days[0]:%d %b}", f"{days[-1]:%d %b}"
    axis = f"{first}{last:>{width * DAYS - len(first)}}"
    lines.append(Content.styled(f"{'':{margin}}{axis}", "$muted"))
    return [*lines, *_legend(workers, totals, ceiling, columns)]


def gain_text(graded: Sequence[GradedAnswer], roster: CardsById) -> str:
    """Say how many of the marked answers were good, with the cloud and without it, or ""."""
    shares = []
    for is_remote, words in ((True, "with the cloud"), (False, "without it")):
        marked = [
            answer
            for answer in graded
            if answer.worker in roster and roster[answer.worker].remote is is_remote
        ]
        good = sum(answer.good > 0.5 for answer in marked)
        shares.append(f"{good} of {len(marked)} {words}" if marked else f"none marked {words}")
    return f"Good, of the answers that you marked: {', '.join(shares)}." if graded else ""


def _spent_by_day(charges: Sequence[DayCharge], roster: CardsById) -> dict[str, Counter[str]]:
    """Return what was spent by day and by worker's name; all but the dearest are one."""
    sums = Counter[str]()
    for charge in charges:
        sums[charge.worker] += charge.charged
    kept = [worker for worker, _ in sums.most_common(len(SIGNS) if len(sums) <= len(SIGNS) else 3)]
    found: dict[str, Counter[str]] = {}
    for charge in charges:
        name = worker_name(charge.worker, roster) if charge.worker in kept else OTHERS
        found.setdefault(charge.day, Counter())[one_line(name, 24)] += charge.charged
    return found


def _bar(spent: Counter[str], workers: Sequence[str], top: int) -> list[int]:
    """Return a day's bar from below: the place of the worker that each of its cells is of."""
    total = spent.total()
    cells = -(-total * ROWS // top) if top else 0
    bar: list[int] = []
    below = 0
    for place, worker in enumerate(workers):
        below += spent[worker]
        bar += [place] * (round(below * cells / total) - len(bar) if total else 0)
    return bar


def _cell(bar: Sequence[int], row: int, is_ceiling: bool, width: int) -> tuple[str, str]:
    if row <= len(bar):
        place = bar[row - 1]
        return SIGNS[place] * width, COLOURS[place]
    return ((CEILING if is_ceiling else " ") * width, "$error" if is_ceiling else "")


def _legend(
    workers: Sequence[str], totals: Counter[str], ceiling: int | None, columns: int
) -> list[Content]:
    parts = [
        Content.assemble((f"{SIGNS[n]} ", COLOURS[n]), f"{name} {show_usd(totals[name])}")
        for n, name in enumerate(workers)
    ]
    if ceiling:
        parts.append(Content.assemble((f"{CEILING} ", "$error"), f"{show_usd(ceiling)} a day"))
    lines: list[Content] = []
    for part in parts:
        joined = Content.assemble(lines[-1], "   ", part) if lines else None
        if joined is not None and joined.cell_length <= columns:
            lines[-1] = joined
        else:
            lines.append(Content.assemble("  ", part).truncate(columns, ellipsis=True))
    return lines
