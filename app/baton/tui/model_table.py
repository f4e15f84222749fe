"""The table of models: its columns, and all that is known of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.content import Content

from baton.core.machine import show_size
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.presentation.model_rows import (
    CATALOGUE,
    UNUSABLE_STATES,
    ModelRow,
    fault_text,
    licence_text,
    origin_text,
    place_text,
    row_facts,
    speed_text,
    state_text,
)
from baton.presentation.words import count_text
from baton.tui.chat.downloads import ActiveDownload, download_text

CATALOGUE_PREFIX = "catalogue/"
"""What the key of a row begins with that is of the catalogue alone."""

WIDE_COLUMNS = 110
"""From how many columns on there is room for more words."""

BAR_COLUMNS, SHORT_BAR_COLUMNS = 24, 12
"""How long bars are, where there is room and where there is little."""


def row_key(row: ModelRow) -> str:
    """Return what identifies a row."""
    return f"{CATALOGUE_PREFIX}{row.id}" if row.is_offered else row.id


def current_key(rows: Mapping[str, ModelRow], key: str) -> str:
    """Return the key of the row that had this one: coming or going changes it."""
    linked = (row.id for row in rows.values() if row.is_stored and str(row.file) == key)
    names = (key, key.removeprefix(CATALOGUE_PREFIX), f"{CATALOGUE_PREFIX}{key}", *linked)
    return next((name for name in names if name in rows), key)


def with_downloads(
    rows: Sequence[ModelRow], coming: Mapping[str, ActiveDownload]
) -> list[ModelRow]:
    """Return the rows with what is on its way now, also what has no row yet."""
    here = [row for row in rows if not (row.program and row.id in coming)]
    known = {row.id for row in here}
    here += [
        ModelRow(one.id, one.name, "coming", size=one.progress.total)
        for one in coming.values()
        if one.id not in known
    ]
    for index, row in enumerate(here):
        if (one := coming.get(row.id)) is not None:
            here[index] = replace(row, phase=str(one.progress.phase), done=one.progress.done)
    return here


def totals_text(rows: Sequence[ModelRow], disk: int, memory: int, *, wide: bool = False) -> str:
    """Sum up what there is, and what it takes where that leaves room for the keys beside it."""
    local = [row for row in rows if row.card is not None and not row.card.uses_gateway]
    here = [row for row in local if not row.is_offered]
    size = sum(row.bytes if row.is_stored else row.size for row in here)
    parts = [count_text(len(here), "model")]
    parts += [f"{show_size(size)} on disk"] if size else []
    parts += [f"{show_size(disk)} free"] if disk and wide else []
    parts += [f"{show_size(memory)} in memory"] if memory and wide else []
    return " · ".join(parts)


# Columns


class Columns:
    """How wide the columns are, for so many characters in all.

    `wide` is whether there is room for more than the least: for a price in `state` beside the
    widest word, and for all roles. `name` has all that is left.
    """

    def __init__(self, width: int) -> None:
        self.wide = width >= WIDE_COLUMNS
        self.state, self.role = (26, 33) if self.wide else (16, 9)
        self.name = max(8, width - self.role - self.state - _FIXED)

    def heading(self) -> Content:
        """Return the columns' names."""
        return Content(self._put("name", "role", "state", "size", "memory", "tok/s", "used"))

    def line(self, row: ModelRow, now: float) -> Content:
        """Return a row."""
        state, colour = self._state(row)
        roles = row.roles if row.is_worker else row.suits
        text = self._put(
            row.name,
            ", ".join(roles if self.wide else roles[:1]),
            state,
            show_size(row.size) if row.size else "",
            show_size(row.memory) if row.memory else "",
            speed_text(row),
            age_text(row.used, now) if row.used else "",
        )
        start = self.name + self.role + 2
        content = Content(text).stylize(colour, start, start + self.state)
        return content.stylize("bold", 0, self.name) if row.is_answering else content

    def _state(self, row: ModelRow) -> tuple[str, str]:
        """Say how a model stands, in words and a colour that adds to them."""
        text, card = state_text(row), row.card
        if row.phase:
            return text, "$primary"
        if row.state in UNUSABLE_STATES:
            return text, "$muted" if row.state == "coming" else "$error"
        if row.is_answering:
            return "answers now", "$primary"
        if row.is_offered:
            shown = "recommended" if row.is_recommended else row.fit if text == CATALOGUE else text
            return shown, "$primary" if row.is_recommended else "$muted"
        if card is None:
            return text, "$muted"
        if not card.uses_gateway:
            return text, "$foreground"
        where = place_text(card)
        if self.wide and card.price is not None and not card.price.is_free:
            rates = card.price.rates
            where = f"{where} {show_usd(rates.input)}, {show_usd(rates.output)}/M"
        return where, "$accent"

    def _put(
        self, name: str, role: str, state: str, size: str, memory: str, speed: str, used: str
    ) -> str:
        left = ((name, self.name), (role, self.role), (state, self.state))
        right = ((size, 8), (memory, 8), (speed, 5), (used, 5))
        words = (_fit_width(text, width) for text, width in left)
        figures = (one_line(text, width).rjust(width) for text, width in right)
        return " ".join((*words, "  ".join(figures)))


_FIXED = 8 + 8 + 5 + 5 + 3 * 1 + 3 * 2
"""What the columns of figures take, and the gaps."""


def _fit_width(text: str, width: int) -> str:
    """Cut or fill a text to a width on the screen, which for some scripts isn't its length."""
    return Content(one_line(text)).truncate(width, ellipsis=True, pad=True).plain


def age_text(then: float, now: float) -> str:
    """Say in five columns how long ago something was."""
    seconds = max(0.0, now - then)
    for size, unit in ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return "now"


def removal_text(row: ModelRow) -> str:
    """Say what removing a model does."""
    what = f"{show_size(row.bytes)} are freed."
    if row.is_linked:
        what = "Its file is another program's and stays where it is; Baton only forgets it."
    elif not row.bytes:
        return "None of it is here yet."
    return f"{what}\nConversations with it stay as they are, and can be read."


def progress_bar(coming: ActiveDownload, length: int = BAR_COLUMNS) -> Content:
    """Draw how far a model is, and say it."""
    progress = coming.progress
    done = length * progress.done // progress.total if progress.total else 0
    return Content.assemble(
        ("█" * done, "$primary"),
        ("·" * (length - done), "$rule"),
        f"  {one_line(download_text(coming), 100)}",
    )


def row_details(row: ModelRow, good: str = "", fit: str = "", adapter: str = "") -> Content:
    """Write what is known of a model: what it is good at, its licence, whether it fits, its file.

    `adapter` is the file of the LoRA adapter that it has on.
    """
    cells = row_facts(row)
    is_remote = row.card is not None and row.card.uses_gateway
    roles = "Good for" if row.is_offered else "Roles"
    names = (roles, "Size", "Licence", "Context", *(("Runs", "Price") * is_remote), "Thinks")
    known = [one_line(row.id, 40) if row.is_worker else "", *(cells[name] for name in names)]
    if row.card is not None and not is_remote:
        known.append(one_line(row.card.hardware, 40))
    fault = fault_text(row) if row.is_stored and not row.phase else ""
    lines = [  # what matters most first: there may be no room for all of it
        Content.assemble(
            (one_line(row.name, 60), "bold"),
            ("".join(f" · {fact}" for fact in known if fact), "$muted"),
        ),
        Content.styled(f"{fault[:1].upper()}{fault[1:]}." if fault else "", "$error"),
        Content.styled(_fetch_hint(row), "$primary"),
        Content(" ".join(filter(None, (one_line(fit or row.fit_text), _pace_text(row))))),
        Content(f"{good[:1].upper()}{one_line(good[1:], 200)}"),
        Content.styled(cells["Note"], "$muted"),
        Content.styled(f"With the adapter {one_line(adapter)}" if adapter else "", "$muted"),
        Content.styled(_place_text(row), "$muted"),
    ]
    return Content("\n").join([line for line in lines if line.plain])


def _pace_text(row: ModelRow) -> str:
    """Say about how fast one would write that isn't here."""
    pace = speed_text(row).replace("~", "about ").replace("<", "less than ")
    return f"{pace.capitalize()} tokens/s, by how fast the starter model is here." * bool(row.pace)


def _place_text(row: ModelRow) -> str:
    """Say where a model's file is, or comes from."""
    if row.program:
        return f"{one_line(row.program, 30)}'s: {one_line(str(row.file))}"
    if row.is_offered and row.source.repo:
        return f"From hf.co/{one_line(row.source.repo, 90)}"
    if row.is_offered or row.state == "coming":
        return f"From {origin_text(row)}"
    linked = "Linked: " if row.is_linked else ""
    return f"{linked}{one_line(str(row.file))}" if row.is_stored else ""


def _fetch_hint(row: ModelRow) -> str:
    """Say what Enter would do, where that takes more than a moment."""
    if not row.is_fetchable:
        return ""
    if not row.is_offered:
        return "Enter resumes it." if row.is_unfinished else "Enter fetches it again."
    what = f"Enter downloads it: {show_size(row.size)}" if row.size else "Enter downloads it"
    if row.entry is not None and not row.entry.is_free:
        return f"{what}, once you have agreed to its licence ({licence_text(row.licence)})."
    return f"{what}, {licence_text(row.licence)}."
