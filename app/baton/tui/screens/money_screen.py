"""Money: what was spent of what, by whom and for what; the last days are drawn as a chart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from baton.core.history_types import GradedAnswer
from baton.core.ledger_types import (
    Charge,
    DayCharge,
    Policy,
    Scope,
    ScopeBalance,
    SpendingStyle,
    Standing,
    UsageRow,
)
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line, sanitise
from baton.presentation.run_story import CardsById, worker_name
from baton.presentation.words import (
    POLICY_NAMES,
    count_text,
    room_text,
    spending_summary,
    unconfirmed_text,
)
from baton.tui import key_bindings
from baton.tui.screens.overlay import CeilingScreen, ConfirmScreen, Overlay
from baton.tui.screens.traffic_screens import EgressScreen
from baton.tui.slash_commands import SetCeiling, parse_budget

if TYPE_CHECKING:
    from baton.core.run.orchestra import Orchestra
    from baton.money import Ledger

DAYS = 30
ROWS = 6
"""How many days are drawn, and how many rows the highest bar has."""

SIGNS = ("█", "▓", "▒", "░")
COLOURS = ("$primary", "$accent", "$success", "$muted")
OTHERS = "others"
CEILING = "╌"

BAR_COLUMNS = 24
OFF_TEXT = "The cloud is off: no ceiling is set. {key} sets one for a day."
RELEASE_WARNING = (
    "Release it only if your provider's own bill does not show it: it then no longer counts "
    "against your ceilings."
)
THAW_WARNING = (
    "Cloud workers can be asked again, up to your ceilings. What was charged stays charged."
)


class MoneyScreen(Overlay[str]):
    """Shows how money stands, and releases what was never charged.

    It returns what of the budget is to be chosen from the menu ("": nothing). `set_ceiling` sets
    the ceiling for a day, `set_pace` changes how much help must gain. `policy` is the
    conversation's own, if it has one. `graded` gives the user's marks of answers. With
    `releasing` it asks at once whether all unconfirmed charges are to be released.
    """

    BINDINGS = key_bindings.MONEY
    HEADING = "Money"

    def __init__(
        self,
        orchestra: Orchestra,
        ledger: Ledger,
        session: str | None,
        policy: Policy | None = None,
        *,
        set_ceiling: Callable[[SetCeiling], Awaitable[str]],
        set_pace: Callable[[SpendingStyle], Awaitable[None]],
        graded: Callable[[], Awaitable[Sequence[GradedAnswer]]],
        releasing: bool = False,
    ) -> None:
        super().__init__()
        self._orchestra = orchestra
        self._ledger = ledger
        self._session = session
        self._set_ceiling = set_ceiling
        self._set_pace = set_pace
        self._policy = policy
        self._graded = graded
        self._releasing = releasing
        self._frozen = ""
        self._unconfirmed: list[Charge] = []

    def body(self) -> ComposeResult:
        """Lay out the sums over the charges that can be released."""
        with VerticalScroll(can_focus=True):
            yield Static(id="sums")
        yield Static(id="unconfirmed-title", classes="title")
        yield OptionList(id="unconfirmed", markup=False)

    def on_mount(self) -> None:
        """Fill the screen."""
        self.query_one(OptionList).display = False
        self._load()

    @work(exclusive=True, group="load")
    async def _load(self) -> None:
        await self._fill()
        if self._releasing and self._unconfirmed and self.is_open:
            self._releasing = False
            self._release(self._unconfirmed)

    async def _fill(self) -> None:
        standing = await self._orchestra.standing(self._session)
        since = _month_start()
        workers = await self._ledger.usage("worker", since)
        purposes = await self._ledger.usage("purpose", since)
        self._unconfirmed = await self._ledger.unconfirmed()
        self._frozen = standing.frozen
        if not self.is_open:
            return
        lines = [*_ceiling_lines(standing), Content(""), *self._rules(standing)]
        lines += [
            *await self._chart(standing),
            *_usage_lines("This month, by worker, with tokens", workers),
            *_usage_lines("By purpose", purposes),
        ]
        self.query_one("#sums", Static).update(Content("\n").join(lines))
        self._list()
        self.footer.status = spending_summary(standing) or "nothing spent"
        self.refresh_bindings()

    async def _chart(self, standing: Standing) -> list[Content]:
        """Draw what the last days cost; under it, what the cloud gained."""
        today = _today()
        began = today - timedelta(days=DAYS - 1)
        charges = await self._ledger.day_charges(time.mktime(began.timetuple()))
        roster = {card.id: card for card in self._orchestra.roster}
        ceiling = next((r.ceiling for r in standing.rooms if r.scope is Scope.DAY), None)
        columns = self.query_one("#sums", Static).content_size.width
        drawn = draw_spending(charges, roster, today, ceiling, columns)
        if not drawn:
            return []
        gain = gain_text(await self._graded(), roster)
        title = Content.styled(f"The last {DAYS} days", "bold")
        return [
            Content(""),
            title,
            *drawn,
            *([Content.styled(f"  {gain}", "$muted")] if gain else []),
        ]

    def _list(self) -> None:
        listing, title = self.query_one(OptionList), self.query_one("#unconfirmed-title", Static)
        listing.clear_options()
        listing.add_options(Option(_charge_option(charge)) for charge in self._unconfirmed)
        listing.display = title.display = bool(self._unconfirmed)
        title.update(unconfirmed_text(self._unconfirmed))
        if self._unconfirmed:
            listing.highlighted = 0
            listing.focus()

    def _rules(self, standing: Standing) -> list[Content]:
        """Say when money is spent, and what keeps it from being."""
        words = POLICY_NAMES[self._orchestra.terms.policy]
        if self._policy is not None:
            words += f" (in this conversation: {POLICY_NAMES[self._policy]})"
        pace = self._orchestra.services.pacer.thrift
        lines = [
            Content.assemble(("When to spend: ", "$muted"), words),
            Content.assemble(("Pace: ", "$muted"), f"{pace}, {pace.description}"),
        ]
        if not standing.is_cloud_on:
            key = key_bindings.configured_keys(self.app, "money.ceiling")
            lines.append(Content(OFF_TEXT.format(key=key)))
        if self._orchestra.terms.offline:
            lines.append(Content("Baton is offline, so nothing is sent. /offline off lifts that."))
        if standing.frozen:
            why = f"The cloud is frozen: {sanitise(standing.frozen)} t lifts that."
            lines.append(Content.styled(why, "$error"))
        return lines

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what there is to do."""
        match action:
            case "release":
                return bool(self._unconfirmed)
            case "thaw":
                return bool(self._frozen)
            case _:
                return True

    def action_release(self) -> None:
        """Take back the charge under the cursor, after asking."""
        index = self.query_one(OptionList).highlighted
        if index is not None and index < len(self._unconfirmed):
            self._release([self._unconfirmed[index]])

    @work(group="change")
    async def _release(self, charges: Sequence[Charge]) -> None:
        what = "Release" if len(charges) == 1 else "Release them all"
        text = f"{unconfirmed_text(charges)}.\n{RELEASE_WARNING}"
        total = show_usd(sum(charge.charged for charge in charges))
        heading = f"Give {total} back to the budget?"
        if not await self.app.push_screen_wait(ConfirmScreen(heading, text, what)):
            return
        given = 0
        for charge in charges:
            given += await self._ledger.release(charge.call)
        self.footer.say(f"released {show_usd(given)}")
        self._load()

    @work(group="change")
    async def action_thaw(self) -> None:
        """Lift a freeze, after asking."""
        text = f"{self._frozen}\n{THAW_WARNING}"
        if await self.app.push_screen_wait(ConfirmScreen("Lift the freeze?", text, "Lift it")):
            await self._ledger.lift_freeze()
            self._load()

    @work(group="change")
    async def action_ceiling(self) -> None:
        """Set the ceiling for a day."""
        ceiling = self._orchestra.terms.ceilings.get(Scope.DAY)
        now = "" if ceiling is None else format_usd(ceiling)
        typed = await self.app.push_screen_wait(CeilingScreen(now, _parse_ceiling))
        if typed is not None:
            self.footer.say(await self._set_ceiling(_parse_ceiling(typed)), 12)
            self._load()

    def action_policy(self) -> None:
        """Choose when to spend, in the menu."""
        self.dismiss("policy")

    @work(group="change")
    async def action_pace(self) -> None:
        """Choose the next pace: frugal, balanced, best, and frugal again."""
        paces = list(SpendingStyle)
        now = paces.index(self._orchestra.services.pacer.thrift)
        await self._set_pace(paces[(now + 1) % len(paces)])
        self._load()

    def action_egress(self) -> None:
        """Show what left this machine."""
        self.app.push_screen(EgressScreen(self._ledger))


def _parse_ceiling(typed: str) -> SetCeiling:
    command = parse_budget(f"{Scope.DAY} {typed}")
    assert isinstance(command, SetCeiling)
    return command


def _ceiling_lines(standing: Standing) -> list[Content]:
    lines = []
    for room in standing.rooms:
        none = "no ceiling of its own" if standing.is_cloud_on else "cloud off"
        ceiling = none if room.ceiling is None else f"of {show_usd(room.ceiling)}"
        amount = f"{show_usd(room.used)} {ceiling}"
        lines.append(
            Content.assemble(
                (f"{room.scope.phrase.capitalize():<19}", "bold"),
                *_ceiling_bar(room),
                f"  {amount}",
            )
        )
        lines.append(Content.styled(f"{'':<19}{room_text(room)}", "$muted"))
    return lines


def _ceiling_bar(room: ScopeBalance) -> list[tuple[str, str]]:
    """Draw a scope's use: each part with a sign of its own, and in words beside it."""
    if not room.ceiling:
        return [("·" * BAR_COLUMNS, "$rule")]
    parts, drawn, total = [], 0, 0
    for amount, sign, colour in (
        (room.settled, "█", "$primary"),
        (room.held, "▒", "$accent"),
        (room.unconfirmed, "░", "$accent"),
    ):
        total += amount
        end = min(BAR_COLUMNS, -(-total * BAR_COLUMNS // room.ceiling)) if amount else drawn
        parts.append((sign * (end - drawn), colour))
        drawn = end
    return [*parts, ("·" * (BAR_COLUMNS - drawn), "$rule")]


def _usage_lines(title: str, rows: Sequence[UsageRow]) -> list[Content]:
    if not rows:
        return []
    lines = [Content(""), Content.styled(title, "bold")]
    for row in rows:
        calls = count_text(row.calls, "call")
        tokens = f"{row.tokens_in:,} in, {row.tokens_out:,} out"
        cost = show_usd(row.charged)
        if row.unconfirmed:
            cost += f" ({show_usd(row.unconfirmed)} unconfirmed)"
        name = f"  {one_line(row.name, 14):<14} {calls:>9}  "
        lines.append(Content.assemble(name, f"{cost:<10}  ", (tokens, "$muted")))
    return lines


def _charge_option(charge: Charge) -> Content:
    at = time.strftime("%d %b %H:%M", time.localtime(charge.at))
    return Content.assemble(
        (f"{at}  ", "$muted"),
        f"{one_line(charge.worker, 16):<16} {one_line(charge.model, 28):<28} ",
        show_usd(charge.charged),
    )


def _today() -> date:
    return date.today()


def _month_start() -> float:
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))


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
    spent: dict[str, Counter[str]] = {}
    for charge in charges:
        name = worker_name(charge.worker, roster) if charge.worker in kept else OTHERS
        spent.setdefault(charge.day, Counter())[one_line(name, 24)] += charge.charged
    return spent


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
