"""A workflow as a picture: a tree of steps, each with its worker, a bar, and how it stands.

The same lines are a plan before it runs (with prices), the live picture while it does, and a
timeline after it: there the bars stand where their time was, so that one sees who ran beside whom.
`WorkflowView` shows them in the conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.widgets import Static

from baton.core.events import Phase
from baton.core.money import show_usd
from baton.core.plan_types import Plan
from baton.core.ports import StepPrice
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.presentation.plans import Branch, plan_tree
from baton.presentation.run_story import CardsById, worker_name, worker_place
from baton.presentation.words import count_text, duration_text, estimate_text

WIDE_COLUMNS = 90
"""From how many columns on the bars are long and the columns stand further apart."""

WIDEST_COLUMNS = 110

_NARROW_COLUMNS = 44
_MIN_NAME_COLUMNS = 12
_MAX_NAME_COLUMNS = 48
_MAX_JOINS_CHARS = 9
_CHARS_PER_CELL = 24
"""Of a text whose length isn't known, the bar's mark moves one cell in so many characters."""

_COLOURS = {"failed": "$error", "skipped": "$warning", "done": "$success", "waiting": "$muted"}
_FILLINGS = {"failed": "▒", "stopped": "▓"}
_EMPTY, _TRACK, _FULL = "░", "·", "█"


@dataclass(frozen=True, slots=True)
class PictureRow:
    """A step's number and its lines in the picture."""

    number: int
    content: Content


def planned_run(plan: Plan) -> RunView:
    """Return the run of a plan of which nothing has begun."""
    steps = (StepView(n, step, step.worker) for n, step in enumerate(plan.steps, start=1))
    return RunView(plan=plan, steps=tuple(steps))


def picture_rows(
    run: RunView,
    roster: CardsById,
    width: int,
    *,
    prices: Sequence[StepPrice] = (),
    texts_of: Mapping[int, str] = {},
    is_asking: bool = False,
) -> list[PictureRow]:
    """Draw every step of a run once, no line wider than `width` columns.

    With `prices` it is a plan before it runs. Of the steps that are running and are in `texts_of`,
    the newest line of their text stands under them. With `is_asking` the user is asked before a
    remote step begins.
    """
    width = max(1, width)
    branches = plan_tree([step.step for step in run.steps], max(4, width // 5))
    asking = {s.number for s in run.steps if is_asking and _is_remote(s, run, roster)}
    cells = [
        _cells(branch, run, roster, prices, is_short=width < WIDE_COLUMNS, asking=asking)
        for branch in branches
    ]
    columns = _Columns.fitting(
        width, cells, is_planned=bool(prices), is_over=run.status != "running"
    )
    rows = []
    for branch, cell in zip(branches, cells, strict=True):
        lines = [_line(cell, run, columns, width, is_planned=bool(prices))]
        text = texts_of.get(branch.number, "") if _is_at_work(cell.step, run) else ""
        if newest := one_line(text[-2000:].rstrip().rpartition("\n")[2]):
            lines.append(_text_line(branch, newest, width))
        rows.append(PictureRow(branch.number, Content("\n").join(lines)))
    return rows


def progress_text(run: RunView) -> str:
    """Say how far a running run's steps are: "4 steps · 2 running · 1 done · 6.1 s · $0.004"."""
    at_work = sum(_is_at_work(step, run) for step in run.steps)
    over = sum(step.is_over for step in run.steps)
    parts = [count_text(len(run.steps), "step")]
    parts += [f"{at_work} running"] if at_work else []
    parts += [f"{over} done"] if over else []
    parts.append(f"{run.seconds:.1f} s")
    return " · ".join([*parts, show_usd(run.cost)] if run.cost else parts)


def timeline_summary(run: RunView, roster: CardsById, width: int) -> Content:
    """Write a run's steps on one line: who did them, and for how long."""
    parts = []
    for step in run.steps:
        edge = "▎" if _is_remote(step, run, roster) else ""
        name = one_line(worker_name(step.worker, roster), 20)
        words = _time_text(step, run) or step_status(step, run)
        who = Content.styled(f"{edge}{name}", "$accent" if edge else "")
        parts.append(Content.assemble(f"{step.number} ", who, f" {words}"))
    return Content(" · ").join(parts).truncate(max(1, width), ellipsis=True)


def total_price_text(prices: Sequence[StepPrice]) -> str:
    """Say what a plan costs in all: "about $0.003, at most $0.02"; "costs nothing"."""
    most = sum(price.most or 0 for price in prices)
    unknown = sum(price.most is None for price in prices)
    doubt = f"{count_text(unknown, 'step')} without a price" if unknown else ""
    if not most:
        return doubt or "costs nothing"
    expected = sum(price.expected or 0 for price in prices)
    return ", ".join(filter(None, (estimate_text(expected, most), doubt)))


def step_status(step: StepView, run: RunView) -> str:
    """Say how a step stands, in a word or two."""
    if run.status != "running" and not step.is_over:
        return "not begun" if step.began is None else "stopped"
    if step.is_over:
        kept = step.status == "done" and step.began is None
        return "kept from before" if kept else f"{step.status}{', cut' * step.is_cut}"
    if step.status == "waiting":
        open_inputs = [n for n in step.step.inputs if not run.steps[n - 1].is_over]
        return f"waits for {number_ranges(open_inputs)}" if open_inputs else "waits"
    if step.status == Phase.QUEUED:
        return "waits for money"
    if step.tokens_per_second and step.status in (Phase.WRITING, Phase.THINKING):
        return f"{step.status} {step.tokens_per_second:.0f} tok/s"
    return step.status if step.fraction is None else f"{step.status} {step.fraction * 100:.0f} %"


def number_ranges(numbers: Sequence[int]) -> str:
    """Write numbers shortly: "1, 3", "1-30"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 2 else ", ".join(map(str, s)) for s in spans)


@dataclass(frozen=True, slots=True)
class _Cells:
    """What stands in a step's columns, before they are fitted."""

    step: StepView
    stem: str
    name: str
    joins: str
    worker: str
    is_remote: bool
    now: str
    time: str
    money: str


def _cells(
    branch: Branch,
    run: RunView,
    roster: CardsById,
    prices: Sequence[StepPrice],
    *,
    is_short: bool,
    asking: Collection[int],
) -> _Cells:
    step = run.steps[branch.number - 1]
    joined = number_ranges(branch.joins).replace(" ", "")
    if len(joined) > _MAX_JOINS_CHARS:
        joined = count_text(len(branch.joins), "step")
    inputs = step.step.inputs
    now = step_status(step, run)
    is_remote = _is_remote(step, run, roster)
    if is_remote and now == Phase.LOADING:
        now = "asking"
    if now == "waits" and branch.number in asking:
        now = "asks you first"
    if prices:
        now = f"after {number_ranges(inputs)}" if inputs else "at once"
    return _Cells(
        step,
        branch.stem,
        f"{branch.number} {step_name(step)}",
        f" ←{joined}" if joined else "",
        one_line(worker_name(step.worker, roster), 40) or "any",
        is_remote,
        now,
        "" if prices else _time_text(step, run),
        step_price_text(prices[branch.number - 1], short=is_short)
        if prices
        else _cost_text(step, run),
    )


def step_name(step: StepView) -> str:
    """Return a short name of what a step does."""
    if step.step.is_direct:
        return "answer the prompt"
    name = one_line(step.step.subtask, 60).rstrip(".")
    is_a_word = name[1:2].islower() or name[1:2] == " "
    return name[:1].lower() + name[1:] if is_a_word else name


def _time_text(step: StepView, run: RunView) -> str:
    if step.began is None:
        return ""
    seconds = max(0.0, (run.seconds if step.ended is None else step.ended) - step.began)
    return f"{seconds:.1f} s" if seconds < 600 else duration_text(seconds)


def _cost_text(step: StepView, run: RunView) -> str:
    calls = [call for call in run.calls if call.step == step.number and call.cost]
    if not calls:
        return ""
    doubt = "" if all(call.confirmed for call in calls) else "?"
    return show_usd(sum(call.cost for call in calls)) + doubt


def step_price_text(price: StepPrice, *, short: bool = False) -> str:
    """Say what a step costs: "about $0.003, at most $0.02"; "free"."""
    if price.most is None:
        return "no price"
    if not price.most:
        return "free"
    return estimate_text(None if short else price.expected, price.most)


def _is_remote(step: StepView, run: RunView, roster: CardsById) -> bool:
    return bool(step.worker) and worker_place(step.worker, run, roster) != "local"


def _is_at_work(step: StepView, run: RunView) -> bool:
    return run.status == "running" and not step.is_over and step.status != "waiting"


@dataclass(frozen=True, slots=True)
class _Columns:
    """How wide the columns are; those with 0 aren't shown."""

    name: int
    worker: int
    bar: int
    now: int
    time: int
    money: int
    gap: int

    @classmethod
    def fitting(
        cls, width: int, cells: Sequence[_Cells], *, is_planned: bool, is_over: bool
    ) -> _Columns:
        """Return the columns for so much room: what is worth least is left out first.

        They don't move while the words of a run change.
        """
        is_wide = width >= WIDE_COLUMNS
        gap = 2 if is_wide else 1
        bar = 14 if width >= WIDEST_COLUMNS else 10 if is_wide else 6
        bar = 6 if is_planned else bar  # names and prices say more yet
        stem = max((len(cell.stem) for cell in cells), default=0)
        longest = max((len(c.stem) + _width(c.name + c.joins) for c in cells), default=0)
        name = min(stem + _MAX_NAME_COLUMNS, longest)
        worker = min(18 if is_wide else 12, 1 + max((_width(c.worker) for c in cells), default=0))
        now = 18 if is_wide else 16 if width >= _NARROW_COLUMNS else 12
        if is_planned or is_over:
            now = min(now, max((_width(cell.now) for cell in cells), default=0))
        time = 0 if is_planned else 8
        money = max((_width(cell.money) for cell in cells), default=0)
        wanted = {"now": now, "bar": bar, "worker": worker, "money": money, "time": time}
        if is_planned:  # a user decides by the price
            wanted = {"money": money, "worker": worker, "now": now, "bar": bar, "time": 0}
        least = min(name, stem + _MIN_NAME_COLUMNS)
        room = width - least
        shown = dict.fromkeys(wanted, 0)
        for column, size in wanted.items():
            if size and size + gap <= room:
                shown[column] = size
                room -= size + gap
        return cls(name=max(1, min(name, room + least)), gap=gap, **shown)


def _width(text: str) -> int:
    return Content(text).cell_length


def _line(
    cells: _Cells, run: RunView, columns: _Columns, width: int, *, is_planned: bool
) -> Content:
    status = "waiting" if is_planned else _plain_status(cells.step, run)
    colour = _COLOURS.get(status, "$primary")
    parts = [_name_cell(cells, columns.name, is_marked=cells.is_remote and not columns.worker)]
    if columns.worker:
        edge = "▎" if cells.is_remote else " "
        worker = Content(edge + cells.worker).truncate(columns.worker, ellipsis=True, pad=True)
        parts.append(worker.stylize("$accent") if cells.is_remote else worker)
    if columns.bar:
        parts.append(Content.styled(step_bar(cells.step, run, columns.bar), colour))
    if columns.now:
        now = Content(cells.now).truncate(columns.now, ellipsis=True, pad=True)
        parts.append(now.stylize(colour))
    if columns.time:
        parts.append(Content.styled(cells.time.rjust(columns.time), "$muted"))
    if columns.money:
        style = "$accent" if cells.is_remote else "$muted"
        parts.append(Content.styled(cells.money.rjust(columns.money), style))
    return Content(" " * columns.gap).join(parts).truncate(width, ellipsis=True).rstrip()


def _name_cell(cells: _Cells, width: int, *, is_marked: bool) -> Content:
    """Write stem, number and name; what a step joins stays in sight where its name is cut.

    It `is_marked` as remote here where its worker has no column.
    """
    stem = Content.assemble((cells.stem, "$muted"), ("▎" * is_marked, "$accent"))
    room = max(1, width - stem.cell_length)
    joins = cells.joins if room - len(cells.joins) >= _MIN_NAME_COLUMNS // 2 else ""
    name = Content(cells.name).truncate(room - len(joins), ellipsis=True)
    whole = Content.assemble(stem, name, (joins, "$muted"))
    return whole.truncate(width, pad=True)


def _text_line(branch: Branch, text: str, width: int) -> Content:
    """Write the newest line of a step's text under it: its end, where it is too long."""
    stem = f"{branch.below} │ "
    room = max(1, width - len(stem) - 1)
    if _width(text) > room:
        text = text[1 - room :] if room > 1 else ""
        while _width(text) >= room:
            text = text[1:]
        text = "…" + text
    return Content.assemble((stem, "$muted"), text, ("▌", "$primary")).truncate(width)


def _plain_status(step: StepView, run: RunView) -> str:
    if run.status != "running" and not step.is_over:
        return "waiting" if step.began is None else "stopped"
    return step.status


def step_bar(step: StepView, run: RunView, cells: int) -> str:
    """Draw a step's bar: how far it is; when the run is over, when it was at work."""
    if run.status != "running":
        return _timeline_bar(step, run, cells)
    if step.is_over:
        filling = _FILLINGS.get(step.status, _TRACK if step.status == "skipped" else _FULL)
        return filling * cells
    if step.status == "waiting":
        return _EMPTY * cells
    if step.fraction is not None and step.status in (Phase.LOADING, Phase.READING):
        full = max(0, min(cells, round(step.fraction * cells)))
        return _FULL * full + _EMPTY * (cells - full)
    mark = min(3, cells)
    start = len(step.text) // _CHARS_PER_CELL % (cells - mark + 1)
    return _EMPTY * start + _FULL * mark + _EMPTY * (cells - mark - start)


def _timeline_bar(step: StepView, run: RunView, cells: int) -> str:
    if step.began is None:
        return _TRACK * cells
    first = min(other.began for other in run.steps if other.began is not None)
    total = max(run.seconds - first, 0.001)  # what comes before may be a user's time
    ended = run.seconds if step.ended is None else step.ended
    start = max(0, min(cells - 1, int((step.began - first) / total * cells)))
    end = max(start + 1, min(cells, round((ended - first) / total * cells)))
    filling = _FILLINGS.get(_plain_status(step, run), _FULL)
    return _TRACK * start + filling * (end - start) + _TRACK * (cells - end)


class WorkflowView(Static):
    """Shows the steps of a run; once that is over, a click opens them and folds them up again."""

    def __init__(self, run: RunView, roster: CardsById) -> None:
        super().__init__(markup=False)
        self._run = run
        self._roster = roster
        self._is_open = False
        self._is_asking = False
        self._height = 0

    def on_mount(self) -> None:
        """Show a question that was put before the first step was drawn."""
        questions = getattr(self.app.screen_stack[0], "questions", None)
        self.show_question(is_open=questions is not None and questions.view is not None)

    def show(self, run: RunView, roster: CardsById) -> None:
        """Show the run as it is now."""
        if run is not self._run:
            self._run, self._roster = run, roster
            self._draw()

    def show_question(self, *, is_open: bool) -> None:
        """Show whether the user is asked before a step begins."""
        if is_open != self._is_asking:
            self._is_asking = is_open
            self._draw()

    def toggle(self) -> None:
        """Show all steps of a run that is over, or one line again."""
        self._is_open = not self._is_open
        self._draw()

    def on_resize(self) -> None:
        """Fit the lines to the width."""
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Open the steps, or fold them up."""
        if self._run.status != "running":
            event.stop()
            self.toggle()

    def _draw(self) -> None:
        """Draw it again; only another number of lines has the screen laid out again."""
        if (width := self.content_size.width) <= 0:
            return
        lines = self._lines(width)
        height = sum(1 + line.plain.count("\n") for line in lines)
        self.update(Content("\n").join(lines), layout=height != self._height)
        self._height = height

    def _lines(self, width: int) -> list[Content]:
        run, roster = self._run, self._roster
        if run.status == "running":
            answers = run.plan.answer if run.plan else ()
            texts = {s.number: s.text for s in run.steps if s.number not in answers}
            rows = picture_rows(run, roster, width, texts_of=texts, is_asking=self._is_asking)
            return [row.content for row in rows]
        if not self._is_open:
            mark = Content.styled("▸ ", "$primary")
            return [mark + timeline_summary(run, roster, width - 2)]
        lines = [row.content for row in picture_rows(run, roster, width - 2)]
        marks = [Content.styled("▾ ", "$primary"), *[Content("  ")] * (len(lines) - 1)]
        return [mark + line for mark, line in zip(marks, lines, strict=True)]
