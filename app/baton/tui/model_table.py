"""The rows and columns of the table of models; no widget is needed for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from textual.content import Content

from baton.core.byte_format import show_size
from baton.core.catalogue_types import (
    UNKNOWN_SOURCE,
    CatalogueEntry,
    ModelRole,
    ThinkingMode,
    card_of,
)
from baton.core.machine import Hardware
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.gguf.memory_fit import Fit, FitVerdict
from baton.models import ExternalModel, LibraryModel, ModelState
from baton.presentation.charges import price_text
from baton.presentation.models import licence_text, place_text
from baton.presentation.run_story import worker_name
from baton.presentation.words import count_text, percent_done
from baton.tui.background_downloads import ActiveDownload, download_text

MORE_TITLE = "More for this machine"
FOREIGN_TITLE = "From other programs"
CATALOGUE_PREFIX = "catalogue/"
"""What the key of a row begins with that is of the catalogue alone."""

WIDE_COLUMNS = 110
"""From how many columns on there is room for more words."""

_FITS = list(Fit)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One line of the table. What is None or empty isn't known, or isn't so.

    `key` identifies it. `card` is set if it is a worker, `held` if it is in the library, `entry` if
    the catalogue knows it, `foreign` if it is another program's, `coming` while it is on its way.
    `speed` is in tokens/s, `pace` what it may be of one that isn't here; `used` is in seconds since
    the epoch.
    """

    key: str
    name: str
    size: int = 0
    roles: tuple[ModelRole, ...] = ()
    card: Card | None = None
    held: LibraryModel | None = None
    entry: CatalogueEntry | None = None
    foreign: ExternalModel | None = None
    coming: ActiveDownload | None = None
    verdict: FitVerdict | None = None
    is_answering: bool = False
    is_recommended: bool = False
    memory: int = 0
    speed: float | None = None
    pace: float | None = None
    used: float | None = None

    @property
    def is_offered(self) -> bool:
        """Whether it is of the catalogue alone."""
        return self.card is None and self.held is None and self.foreign is None

    @property
    def licence(self) -> str:
        """Under which it may be used, "" if unknown."""
        known = (self.held.record if self.held else None, self.card, self.entry)
        return next((one.licence for one in known if one is not None and one.licence), "")


@dataclass(frozen=True, slots=True)
class TableData:
    """What the table is made of, as it was read last."""

    roster: Sequence[Card] = ()
    held: Sequence[LibraryModel] = ()
    entries: Mapping[str, CatalogueEntry] = field(default_factory=dict)
    foreign: Sequence[ExternalModel] = ()
    verdicts: Mapping[str, FitVerdict] = field(default_factory=dict)
    recommended: Collection[str] = ()
    paces: Mapping[str, float] = field(default_factory=dict)
    uses: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)
    roles: Mapping[ModelRole, str] = field(default_factory=dict)
    disk: int = 0


def rows_here(
    data: TableData,
    coming: Mapping[str, ActiveDownload],
    current: str,
    resident: Callable[[str], int] = lambda _: 0,
) -> list[ModelRow]:
    """Return the workers, then the models that aren't workers yet; `current` answers now."""
    held_by_id = {held.id: held for held in data.held}
    cards = {card.id: card for card in data.roster}
    rows = []
    for card in data.roster:
        speed, used = data.uses.get(card.id, (None, None))
        held, entry = held_by_id.pop(card.id, None), data.entries.get(card.id)
        row = ModelRow(
            card.id,
            worker_name(card.id, cards),
            card.size or (held.record.size if held else 0) or (entry.size if entry else 0),
            tuple(role for role, holder in data.roles.items() if holder == card.id),
            card=card,
            held=held,
            entry=entry,
            coming=coming.get(card.id),
            is_answering=card.id == current,
            memory=resident(card.id),
            speed=speed,
            used=used,
        )
        rows.append(row)
    for id, held in held_by_id.items():
        record = held.record
        row = ModelRow(
            id,
            record.name,
            record.size,
            record.roles,
            held=held,
            entry=data.entries.get(id),
            coming=coming.get(id),
        )
        rows.append(row)
    linking = [one for key, one in coming.items() if key not in {row.key for row in rows}]
    rows += [ModelRow(one.id, one.name, one.progress.total, coming=one) for one in linking]
    return rows


def rows_foreign(data: TableData, coming: Collection[str]) -> list[ModelRow]:
    """Return the models of other programs."""
    return [
        ModelRow(str(one.path), one.name, one.size, foreign=one)
        for one in data.foreign
        if str(one.path) not in coming
    ]


def rows_offered(data: TableData, here: Iterable[str], *, whole: bool) -> list[ModelRow]:
    """Return the catalogue's other models: the recommended ones, then by how well they fit.

    Those that won't fit are left out but for the `whole`.
    """
    there = set(here)
    rows = [
        ModelRow(
            f"{CATALOGUE_PREFIX}{id}",
            entry.name,
            entry.size,
            entry.roles,
            entry=entry,
            verdict=data.verdicts.get(id),
            is_recommended=id in data.recommended,
            pace=data.paces.get(id),
        )
        for id, entry in data.entries.items()
        if id not in there
    ]
    shown = [row for row in rows if whole or row.verdict is None or row.verdict.fit is not Fit.WONT]
    return sorted(shown, key=_offer_rank)


def current_key(rows: Mapping[str, ModelRow], key: str) -> str:
    """Return the key of the row that had this one: coming or going changes it."""
    linked = (
        row.key for row in rows.values() if row.held is not None and str(row.held.path) == key
    )
    names = (key, key.removeprefix(CATALOGUE_PREFIX), f"{CATALOGUE_PREFIX}{key}", *linked)
    return next((name for name in names if name in rows), key)


def expected_speeds(
    entries: Mapping[str, CatalogueEntry], machine: Hardware, starter: float | None
) -> Mapping[str, float]:
    """Return about how fast models would write here, if it is known how fast the starter does."""
    from baton.models import expected_speed

    if not starter:
        return {}
    return {id: expected_speed(entry, machine, starter) for id, entry in entries.items()}


def _offer_rank(row: ModelRow) -> tuple[bool, int, bool, int]:
    assert row.entry is not None
    fit = _FITS.index(row.verdict.fit) if row.verdict is not None else 0
    return not row.is_recommended, fit, not row.entry.is_free, -row.entry.parameters


# Columns


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide the columns are, for so many characters in all."""

    width: int

    @property
    def wide(self) -> bool:
        """Whether there is room for more than the least."""
        return self.width >= WIDE_COLUMNS

    @property
    def state(self) -> int:
        """The widest word there, and a price where there is room."""
        return 26 if self.wide else 16

    @property
    def role(self) -> int:
        """All roles where there is room, else the first."""
        return 33 if self.wide else 9

    @property
    def name(self) -> int:
        """All that is left."""
        return max(8, self.width - self.role - self.state - _FIXED)

    def heading(self) -> Content:
        """Return the columns' names."""
        return Content(self._put("name", "role", "state", "size", "memory", "tok/s", "used"))

    def line(self, row: ModelRow, now: float) -> Content:
        """Return a row."""
        state, colour = state_text(row, wide=self.wide)
        text = self._put(
            row.name,
            ", ".join(row.roles if self.wide else row.roles[:1]),
            state,
            show_size(row.size) if row.size else "",
            show_size(row.memory) if row.memory else "",
            speed_text(row),
            age_text(row.used, now) if row.used else "",
        )
        start = self.name + self.role + 2
        content = Content(text).stylize(colour, start, start + self.state)
        return content.stylize("bold", 0, self.name) if row.is_answering else content

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


def speed_text(row: ModelRow) -> str:
    """Say in five columns how fast a model writes here, or about how fast it would."""
    if row.speed or not row.pace:
        return f"{row.speed:.0f}" if row.speed else ""
    return f"~{row.pace:.0f}" if row.pace >= 1 else "<1"


def age_text(then: float, now: float) -> str:
    """Say in five columns how long ago something was."""
    seconds = max(0.0, now - then)
    for size, unit in ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return "now"


def state_text(row: ModelRow, *, wide: bool = False) -> tuple[str, str]:
    """Say how a row stands, in words and a colour that adds to them."""
    if row.coming is not None:
        progress = row.coming.progress
        return f"{progress.phase} {percent_done(progress.done, progress.total)} %", "$primary"
    if row.held is not None and not row.held.state.is_usable:
        return _unusable_state(row.held)
    if row.is_answering:
        return "answers now", "$primary"
    if row.foreign is not None:
        return one_line(row.foreign.program, 26), "$muted"
    if row.card is None:
        return _fit_state(row)
    if row.card.uses_gateway:
        return _remote_state(row.card, wide), "$accent"
    return (str(row.held.state) if row.held is not None else "here"), "$foreground"


def _unusable_state(held: LibraryModel) -> tuple[str, str]:
    if held.state is ModelState.COMING:
        word = "paused" if held.record.paused else "stopped"
        part = f" {100 * held.bytes // held.record.size} %" if held.record.size else ""
        return f"{word}{part}", "$muted"
    return str(held.state), "$error"


def _fit_state(row: ModelRow) -> tuple[str, str]:
    if row.verdict is None:
        return ("recommended" if row.is_recommended else ""), "$muted"
    if row.verdict.fit is Fit.WONT:
        return "won't fit", "$muted"
    return ("recommended", "$primary") if row.is_recommended else (str(row.verdict.fit), "$muted")


def _remote_state(card: Card, wide: bool) -> str:
    where = place_text(card)
    if not wide or card.price is None or card.price.is_free:
        return where
    rates = card.price.rates
    return f"{where} {show_usd(rates.input)}, {show_usd(rates.output)}/M"


def totals_text(data: TableData, memory: int, *, wide: bool = False) -> str:
    """Sum up what there is, and what it takes where that leaves room for the keys beside it."""
    held_ids = {held.id for held in data.held}
    others = [card for card in data.roster if not card.uses_gateway and card.id not in held_ids]
    count = len(held_ids) + len(others)
    size = sum(held.bytes for held in data.held) + sum(card.size for card in others)
    parts = [count_text(count, "model")]
    parts += [f"{show_size(size)} on disk"] if size else []
    parts += [f"{show_size(data.disk)} free"] if data.disk and wide else []
    parts += [f"{show_size(memory)} in memory"] if memory and wide else []
    return " · ".join(parts)


BAR_COLUMNS, SHORT_BAR_COLUMNS = 24, 12
"""How long bars are, where there is room and where there is little."""

READABLE_STATES = (ModelState.HERE, ModelState.LINKED, ModelState.CHANGED, ModelState.BROKEN)
"""States in which there is a file to be read through."""


def is_fetchable(row: ModelRow) -> bool:
    """Whether Enter would fetch a model."""
    if row.coming is not None or row.foreign is not None:
        return False
    if row.held is None:
        return row.is_offered and row.entry is not None
    if row.held.state is ModelState.COMING:
        return True
    lost = row.held.state in (ModelState.BROKEN, ModelState.GONE)
    return lost and not row.held.record.link and row.held.record.source != UNKNOWN_SOURCE


def removal_text(row: ModelRow) -> str:
    """Say what removing a model comes to."""
    assert row.held is not None
    record = row.held.record
    if record.link:
        what = "Its file is another program's and stays where it is; Baton only forgets it."
    elif not row.held.bytes:
        return "Nothing of it is here yet."
    else:
        what = f"{show_size(row.held.bytes)} are freed."
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


# All that is known


def row_card(row: ModelRow) -> Card | None:
    """Return the card of a worker, or of what a model of the catalogue would be as one."""
    return row.card if row.card is not None or row.entry is None else card_of(row.entry)


def row_details(
    row: ModelRow, good: str = "", verdict: FitVerdict | None = None, adapter: str = ""
) -> Content:
    """Write what is known of a model: what it is good at, its licence, whether it fits, its file.

    `adapter` is the file of the LoRA adapter that it has on.
    """
    lines = [  # what matters most first: there may be no room for all of it
        Content.assemble((one_line(row.name, 60), "bold"), (_facts_text(row), "$muted")),
        Content.styled(_fault_text(row), "$error"),
        Content.styled(_fetch_hint(row), "$primary"),
        Content(" ".join(filter(None, (_fit_text(verdict or row.verdict), _speed_text(row))))),
        Content(f"{good[:1].upper()}{one_line(good[1:], 200)}"),
        Content.styled(_notes_text(row), "$muted"),
        Content.styled(f"With the adapter {one_line(adapter)}" if adapter else "", "$muted"),
        Content.styled(_origin_text(row), "$muted"),
    ]
    return Content("\n").join([line for line in lines if line.plain])


def _facts_text(row: ModelRow) -> str:
    card, entry = row.card, row.entry
    context = (card.context if card else 0) or (entry.context if entry else 0)
    price = _price_text(card) if card is not None and card.uses_gateway else ""
    thinks = {ThinkingMode.ALWAYS: "always thinks first", ThinkingMode.SWITCH: "can think first"}
    facts = [
        one_line(card.id, 40) if card is not None else "",
        ", ".join(row.roles),
        show_size(row.size) if row.size else "",
        licence_text(row.licence) if row.licence else "",
        f"{context:,} tokens" if context else "",
        one_line(card.hardware, 40) if card is not None else "",
        price,
        thinks.get(entry.thinking, "") if entry is not None else "",
    ]
    return "".join(f" · {fact}" for fact in facts if fact)


def _price_text(card: Card) -> str:
    text = price_text(card)
    return text if card.price is not None else f"{text}: not asked until you enter one"


def _fit_text(verdict: FitVerdict | None) -> str:
    return f"{one_line(verdict.why)} {one_line(verdict.remedy)}".strip() if verdict else ""


def _speed_text(row: ModelRow) -> str:
    """Say about how fast one would write that isn't here."""
    if not row.is_offered or not row.pace:
        return ""
    if row.pace < 1:
        return "Less than 1 token/s, by how fast the starter model is here."
    return f"About {row.pace:.0f} tokens/s, by how fast the starter model is here."


def _origin_text(row: ModelRow) -> str:
    if row.foreign is not None:
        return f"{one_line(row.foreign.program, 30)}'s: {one_line(str(row.foreign.path))}"
    if row.held is None:
        return (
            f"From hf.co/{one_line(row.entry.source.repo, 90)}"
            if row.is_offered and row.entry
            else ""
        )
    if row.held.state is ModelState.COMING:
        return f"From {one_line(str(row.held.record.source), 150)}"
    linked = "Linked: " if row.held.record.link else ""
    return f"{linked}{one_line(str(row.held.path))}"


def _notes_text(row: ModelRow) -> str:
    """Return the notes of its maker and of its runner."""
    known = (row.card.note if row.card else "", row.entry.note if row.entry else "")
    return " ".join(dict.fromkeys(one_line(note) for note in known if note))


def _fault_text(row: ModelRow) -> str:
    if row.held is None or row.coming is not None:
        return ""
    match row.held.state:
        case ModelState.BROKEN:
            return f"Not used: {one_line(row.held.record.wrong) or 'its file is broken'}."
        case ModelState.GONE:
            return f"{row.held.missing.capitalize()} isn't there any more."
        case ModelState.CHANGED:
            return "Its file was changed: it is read through before it is loaded again."
    return ""


def _fetch_hint(row: ModelRow) -> str:
    """Say what Enter would do, where that takes more than a moment."""
    if is_fetchable(row) and row.held is not None:
        return (
            "Enter goes on with it."
            if row.held.state is ModelState.COMING
            else "Enter fetches it again."
        )
    if row.entry is None or not row.is_offered or row.coming is not None:
        return ""
    what = f"Enter downloads it: {show_size(row.size)}" if row.size else "Enter downloads it"
    if not row.entry.is_free:
        return f"{what}, once you have agreed to its licence ({licence_text(row.licence)})."
    return f"{what}, {licence_text(row.licence)}."
