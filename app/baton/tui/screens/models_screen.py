"""The screen of the models: workers, downloads, the catalogue; and all that is done with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from baton.compose.model_inventory import ModelInventory
from baton.core.catalogue_types import STARTER_ID, ModelRole
from baton.core.errors import BatonError
from baton.core.machine import show_size
from baton.core.messages import Card
from baton.core.sanitiser import one_line, sanitise
from baton.models import expected_speed
from baton.presentation.model_rows import UNUSABLE_STATES, ModelRow
from baton.tui import key_bindings, model_table
from baton.tui.chat.downloads import MAX_PARALLEL, ActiveDownload, Downloads
from baton.tui.model_table import (
    BAR_COLUMNS,
    SHORT_BAR_COLUMNS,
    progress_bar,
    removal_text,
    row_details,
    row_key,
)
from baton.tui.screens.overlay import ConfirmScreen, Overlay, RoleScreen, request_model

if TYPE_CHECKING:
    from baton.tui.chat.context import ChatContext
MORE_TITLE = "More for this machine"
FOREIGN_TITLE = "From other programs"

TICK_SECONDS = 0.5
"""How often what is loaded and what is on its way is looked at again."""


class ModelsScreen(Overlay[str]):
    """Shows a table of models and returns the id of the worker that is to answer."""

    BINDINGS = key_bindings.MODELS
    HEADING = "Models"

    def __init__(
        self,
        context: ChatContext,
        downloads: Downloads,
        *,
        starter_speed: float | None = None,
        at_best: bool = False,
    ) -> None:
        """Begin at the best of what is recommended (`at_best`), or at the chosen worker.

        `starter_speed` are the tokens per second of the starter model here (None: not measured).
        """
        super().__init__()
        self._chat = context
        self._services = context.services
        self._library = context.services.library
        self._downloads = downloads
        self._starter_speed = starter_speed
        self._at_best = at_best
        self._data = ModelInventory()
        self._shows_all = False
        self._rows: dict[str, ModelRow] = {}
        self._lines: dict[str, Content] = {}
        self._strengths: dict[str, str] = {}
        self._fit_texts: dict[str, str] = {}
        self._last_downloads = self._downloads_state()
        self._shown: dict[str, Content] = {}
        self._complaint = ""

    def body(self) -> ComposeResult:
        """Lay out the table, what is on its way, and the model under the cursor."""
        yield Static(id="columns", markup=False)
        yield OptionList(id="table", markup=False)
        yield Static(id="coming", markup=False)
        with VerticalScroll(id="details", can_focus=False):
            yield Static(id="about", markup=False)

    def on_mount(self) -> None:
        """Show the workers at once, and the rest when it has been read."""
        self.query_one("#coming").display = False
        self._data = ModelInventory(roster=self._roster(), roles=self._services.roles())
        self._fill()
        self._point_at(self._chat.worker)
        self._load()
        self.set_interval(TICK_SECONDS, self._tick)

    def on_resize(self) -> None:
        """Fit the columns to the new width."""
        self.call_after_refresh(self._fill)

    @property
    def _row(self) -> ModelRow | None:
        """What the cursor is on."""
        table = self.query_one(OptionList) if self.is_open else None
        if table is None or table.highlighted is None:
            return None
        return self._rows.get(table.get_option_at_index(table.highlighted).id or "")

    def _downloads_state(self) -> tuple[object, ...]:
        """Return what changes whenever other models may be here or on their way."""
        return set(self._downloads.coming), self._downloads.ended_count

    def _roster(self) -> list[Card]:
        return [card for card in self._services.orchestra.roster if not card.is_tool]

    # What there is

    @work(exclusive=True, group="load")
    async def _load(self) -> None:
        """Read what is here, then look at the machine for what else would suit it."""
        with self._show_errors():
            uses = await self._services.store.runs.worker_usage()
            self._read(replace(self._data, uses=uses, roster=self._roster()))
            held, entries = await asyncio.to_thread(
                lambda: (self._library.models(), self._library.entries())
            )
            roles = self._services.roles()
            self._read(replace(self._data, held=held, entries=entries, roles=roles))
            foreign = await asyncio.to_thread(self._library.external_models)
            self._read(replace(self._data, foreign=foreign))
            await self._judge()

    async def _judge(self) -> None:
        """Find out what of the catalogue would fit; once, since it takes a while."""
        if self._data.verdicts:
            return
        machine = await self._library.inspect_machine()
        verdicts = self._library.verdicts(machine)
        advice = await self._library.recommend(self._starter_speed)
        picks = [pick.entry.id for pick in advice.picks]
        starter = self._starter_speed or self._data.uses.get(STARTER_ID, (None,))[0]
        entries = self._data.entries if starter else {}
        self._read(
            replace(
                self._data,
                verdicts=verdicts,
                recommended=picks,
                paces={id: expected_speed(e, machine, starter or 0) for id, e in entries.items()},
                disk=machine.disk,
            )
        )

    def _read(self, data: ModelInventory) -> None:
        self._data = data
        self._fill()
        best = next((key for key, row in self._rows.items() if row.is_recommended), "")
        if self._at_best and best and self.is_open:
            self._at_best = False
            self._point_at(best)
        self.refresh_bindings()

    def _tick(self) -> None:
        """Follow what is loaded and what is on its way."""
        if (seen := self._downloads_state()) != self._last_downloads:
            self._last_downloads = seen
            self._load()
        elif self.app.screen is self:
            self._fill()

    # The table

    def _fill(self) -> None:
        """Draw what has changed; the cursor stays on its model."""
        if not self.is_open or not self.size.width:
            return
        table, coming = self.query_one(OptionList), self._downloads.coming
        columns = model_table.Columns(table.scrollable_content_region.width - 2)
        found = model_table.with_downloads(self._data.rows(self._chat.worker), coming)
        resident = self._services.orchestra.resident
        found = [replace(r, memory=resident(r.id)) if r.is_worker else r for r in found]
        lasting = [row for row in found if not row.program and not row.is_offered]
        groups = {
            "": lasting,
            FOREIGN_TITLE: [row for row in found if row.program],
            MORE_TITLE: [
                r for r in found if r.is_offered and (self._shows_all or r.fit != "won't")
            ],
        }
        now, lines, rows = time.time(), {}, {}
        for title, members in groups.items():
            if title and members:
                lines[title] = Content.styled(title, "$muted")
            for row in members:
                rows[row_key(row)] = row
                lines[row_key(row)] = columns.line(row, now)
        self._rows = rows
        self._draw(table, lines)
        self._put("#columns", columns.heading().stylize("$muted"))
        self._show_coming(coming, BAR_COLUMNS if columns.wide else SHORT_BAR_COLUMNS)
        memory, disk = self._services.orchestra.memory, self._data.disk
        self.footer.status = model_table.totals_text(lasting, disk, memory, wide=columns.wide)
        self._describe()

    def _draw(self, table: OptionList, lines: dict[str, Content]) -> None:
        if list(lines) == list(self._lines):
            for key, line in lines.items():
                if line != self._lines[key]:
                    table.replace_option_prompt(key, line)
        else:
            before, top = table.highlighted_option, table.scroll_y
            place = table.highlighted or 0
            table.clear_options()
            table.add_options(
                Option(line, key, disabled=key not in self._rows) for key, line in lines.items()
            )
            key = (before.id if before is not None else None) or self._chat.worker
            self._point_at(model_table.current_key(self._rows, key), place)
            table.scroll_to(y=top, animate=False, immediate=True)
            table.scroll_to_highlight()
        self._lines = lines

    def _point_at(self, key: str, place: int = 0) -> None:
        """Put the cursor on a row, or on the one that is nearest to a place."""
        table = self.query_one(OptionList)
        places = {name: table.get_option_index(name) for name in self._rows}
        nearest = min(places.values(), key=lambda index: abs(index - place), default=None)
        table.highlighted = places.get(key, nearest)

    def _show_coming(self, coming: Mapping[str, ActiveDownload], length: int) -> None:
        """Draw a bar for each model on its way."""
        bars = [progress_bar(one, length) for one in coming.values()][:MAX_PARALLEL]
        self._put("#coming", Content("\n").join(bars))
        self.query_one("#coming").display = bool(bars)

    def _put(self, where: str, content: Content) -> None:
        """Show something, if it isn't shown already."""
        if self._shown.get(where) != content:
            self._shown[where] = content
            self.query_one(where, Static).update(content)

    # The model under the cursor

    @on(OptionList.OptionHighlighted)
    def _move(self) -> None:
        self._complaint = ""
        self._describe()
        self.refresh_bindings()
        if (row := self._row) is not None and row_key(row) not in self._strengths:
            self._look_closer(row)

    @work(exclusive=True, group="closer")
    async def _look_closer(self, row: ModelRow) -> None:
        """Find out what a model is good at, and whether one that is here fits now."""
        from baton.core.planning.skill_table import skill_summary

        if (card := row.card) is None:
            return
        with self._show_errors():
            self._strengths[row_key(row)] = skill_summary(
                card, await self._services.orchestra.services.skills.masteries_of(card)
            )
            if _is_readable(row):
                verdict = await self._library.verdict(row.id)
                self._fit_texts[row.id] = f"{verdict.why} {verdict.remedy}".strip()
            self._describe()

    def _describe(self) -> None:
        """Show what is known of the model under the cursor."""
        if not self.is_open:
            return
        row, about = self._row, Content("")
        if row is not None:
            good, fit = self._strengths.get(row_key(row), ""), self._fit_texts.get(row.id, "")
            about = row_details(row, good, fit, self._services.orchestra.adapter(row.id))
        if complaint := self._complaint or self._download_error(row):
            about = Content.assemble((complaint, "$error"), "\n", about)
        self._put("#about", about)

    def _download_error(self, row: ModelRow | None) -> str:
        """Say why this one didn't come, or couldn't be read, if it was tried lately."""
        if row is None or row.phase:
            return ""
        error = self._downloads.errors.get(row_key(row))
        return "" if error is None else sanitise(str(error))

    @contextmanager
    def _show_errors(self) -> Iterator[None]:
        """Say what goes wrong, where there is room for a sentence, until the cursor moves."""
        try:
            yield
        except BatonError as error:
            self._complaint = sanitise(str(error))
            self._describe()

    # What is done with it

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with the model under the cursor."""
        if action == "whole":
            return bool(self._data.verdicts)
        if action not in _ROW_ACTIONS:
            return True
        return self._row is not None and _ROW_ACTIONS[action](self._row)

    def action_choose(self) -> None:
        """Have this worker answer from here on."""
        if (row := self._row) is not None and row.is_worker:
            self.dismiss(row.id)

    @on(OptionList.OptionSelected)
    async def _select(self, event: OptionList.OptionSelected) -> None:
        """Do with a clicked row what Enter does."""
        event.stop()
        for action in ("choose", "fetch", "link"):
            if self.check_action(action, ()):
                await self.run_action(action)
                return

    @work(group="fetch")
    async def action_fetch(self) -> None:
        """Download a model of the catalogue, or one whose file is lost."""
        row = self._row
        if row is None or not row.is_fetchable:
            return
        with self._show_errors():
            if row.is_stored or await request_model(self.app, self._library, row.id) is not None:
                await self._downloads.resume(row.id)

    def action_link(self) -> None:
        """Use another program's file where it is."""
        row = self._row
        if row is not None and row.program and row.file is not None:
            self._downloads.link(row.file, row.name, row.size)

    @work(group="change")
    async def action_pause(self) -> None:
        """Pause a download."""
        await self._set_paused(pause=True)

    @work(group="change")
    async def action_go_on(self) -> None:
        """Resume a download."""
        await self._set_paused(pause=False)

    async def _set_paused(self, *, pause: bool) -> None:
        row = self._row
        if row is None or not row.is_stored:
            return
        with self._show_errors():
            await (self._downloads.pause if pause else self._downloads.resume)(row.id)
        self._load()

    def action_verify(self) -> None:
        """Read a model's file through, and see whether it is as it was."""
        row = self._row
        if row is not None and row.is_stored:
            self._downloads.verify(self._library.get(row.id))

    @work(group="change")
    async def action_remove(self) -> None:
        """Take a model away, after asking."""
        row = self._row
        if row is None or not row.is_stored:
            return
        heading = f"Remove {one_line(row.name, 40)}?"
        if not await self.app.push_screen_wait(
            ConfirmScreen(heading, removal_text(row), "Remove it")
        ):
            return
        with self._show_errors():
            await self._downloads.stop(row.id)
            await self._services.remove_worker(row.id)
            freed = await asyncio.to_thread(self._library.remove, row.id)
            self._chat.follow_default("")
            self.footer.say(f"removed; {show_size(freed)} freed")
            self._load()

    @work(group="change")
    async def action_role(self) -> None:
        """Choose what a worker does from now on."""
        row = self._row
        if row is None or not row.is_worker:
            return
        role = await self.app.push_screen_wait(RoleScreen(row.name, self._data.roles))
        if role is None:
            return
        with self._show_errors():
            change = await asyncio.to_thread(self._services.assign, row.id, [role])
            if role is ModelRole.CHAT:
                self._chat.choose_worker(row.id)
            self.footer.say(change)
            self._load()

    def action_whole(self) -> None:
        """Show all of the catalogue, with what won't fit; or only what does."""
        self._shows_all = not self._shows_all
        self._fill()
        self.footer.say("all of the catalogue" if self._shows_all else "what fits this machine")


def _is_readable(row: ModelRow) -> bool:
    """Whether there is a file of the library that can be used."""
    return row.is_stored and row.state not in UNUSABLE_STATES


_ROW_ACTIONS: Mapping[str, Callable[[ModelRow], bool]] = {
    "choose": lambda row: row.is_worker and not (row.is_stored and not _is_readable(row)),
    "fetch": lambda row: row.is_fetchable,
    "link": lambda row: bool(row.program),
    "pause": lambda row: row.state == "coming" and bool(row.phase) and row.is_stored,
    "go_on": lambda row: row.state == "coming" and not row.phase,
    "verify": lambda row: (_is_readable(row) or row.state == "broken") and not row.phase,
    "remove": lambda row: row.is_stored,
    "role": lambda row: row.is_worker,
}
"""What can be done with which models."""
