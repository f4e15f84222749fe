"""One model in words: what is known of it, what can be done with it, and what that comes to."""

from __future__ import annotations

from textual.content import Content

from baton.core.byte_format import show_size
from baton.core.catalogue_types import UNKNOWN_SOURCE, ThinkingMode, card_of
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.gguf.memory_fit import Verdict
from baton.models.model_types import State
from baton.tui.background_downloads import ActiveDownload, download_text
from baton.tui.model_table import ModelRow
from baton.tui.recommendation_text import licence_text

BAR_COLUMNS, SHORT_BAR_COLUMNS = 24, 12
"""How long bars are, where there is room and where there is little."""

READABLE_STATES = (State.HERE, State.LINKED, State.CHANGED, State.BROKEN)
"""States in which there is a file to be read through."""


def is_fetchable(row: ModelRow) -> bool:
    """Tell whether Enter would fetch a model."""
    if row.coming is not None or row.foreign is not None:
        return False
    if row.held is None:
        return row.is_offered and row.entry is not None
    if row.held.state is State.COMING:
        return True
    lost = row.held.state in (State.BROKEN, State.GONE)
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
    row: ModelRow, good: str = "", verdict: Verdict | None = None, adapter: str = ""
) -> Content:
    """Tell what is known of a model: what it is good at, its licence, whether it fits, its file.

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
    price = price_text(card) if card is not None and card.uses_gateway else ""
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


def price_text(card: Card) -> str:
    """Say what a worker elsewhere costs."""
    if card.price is None:
        return "price unknown: not asked until you enter one"
    if card.price.is_free:
        return "costs nothing"
    rates = card.price.rates
    return f"{show_usd(rates.input)} in, {show_usd(rates.output)} out per million tokens"


def _fit_text(verdict: Verdict | None) -> str:
    return f"{one_line(verdict.why)} {one_line(verdict.mend)}".strip() if verdict else ""


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
    if row.held.state is State.COMING:
        return f"From {one_line(str(row.held.record.source), 150)}"
    linked = "Linked: " if row.held.record.link else ""
    return f"{linked}{one_line(str(row.held.path))}"


def _notes_text(row: ModelRow) -> str:
    """Tell what its maker and its runner say of it."""
    known = (row.card.note if row.card else "", row.entry.note if row.entry else "")
    return " ".join(dict.fromkeys(one_line(note) for note in known if note))


def _fault_text(row: ModelRow) -> str:
    if row.held is None or row.coming is not None:
        return ""
    match row.held.state:
        case State.BROKEN:
            return f"Not used: {one_line(row.held.record.wrong) or 'its file is broken'}."
        case State.GONE:
            return "Its file isn't there any more."
        case State.CHANGED:
            return "Its file was changed: it is read through before it is loaded again."
    return ""


def _fetch_hint(row: ModelRow) -> str:
    """Say what Enter would do, where that takes more than a moment."""
    if is_fetchable(row) and row.held is not None:
        return (
            "Enter goes on with it." if row.held.state is State.COMING else "Enter fetches it anew."
        )
    if row.entry is None or not row.is_offered or row.coming is not None:
        return ""
    what = f"Enter downloads it: {show_size(row.size)}" if row.size else "Enter downloads it"
    if not row.entry.is_free:
        return f"{what}, once you have agreed to its licence ({licence_text(row.licence)})."
    return f"{what}, {licence_text(row.licence)}."
