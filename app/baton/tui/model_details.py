"""One model in words: what is known of it, what can be done with it, and what that comes to."""

from __future__ import annotations

from textual.content import Content

from baton.core.byte_format import show_size
from baton.core.catalogue_types import NOWHERE, Thinking, card_of
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.gguf.memory_fit import Verdict
from baton.models.model_types import State
from baton.tui.background_downloads import Coming, told_one
from baton.tui.model_table import Row
from baton.tui.recommendation_text import show_licence

BAR, SHORT_BAR = 24, 12
"""How long bars are, where there is room and where there is little."""

READABLE = (State.HERE, State.LINKED, State.CHANGED, State.BROKEN)
"""States in which there is a file to be read through."""


def fetchable(row: Row) -> bool:
    """Tell whether Enter would fetch a model."""
    if row.coming is not None or row.foreign is not None:
        return False
    if row.held is None:
        return row.offered and row.entry is not None
    if row.held.state is State.COMING:
        return True
    lost = row.held.state in (State.BROKEN, State.GONE)
    return lost and not row.held.record.link and row.held.record.source != NOWHERE


def cost(row: Row) -> str:
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


def bar(coming: Coming, length: int = BAR) -> Content:
    """Draw how far a model is, and say it."""
    progress = coming.progress
    done = length * progress.done // progress.total if progress.total else 0
    return Content.assemble(
        ("█" * done, "$primary"),
        ("·" * (length - done), "$rule"),
        f"  {one_line(told_one(coming), 100)}",
    )


# All that is known


def shown_card(row: Row) -> Card | None:
    """Return the card of a worker, or of what a model of the catalogue would be as one."""
    return row.card if row.card is not None or row.entry is None else card_of(row.entry)


def details(row: Row, good: str = "", verdict: Verdict | None = None, adapter: str = "") -> Content:
    """Tell what is known of a model: what it is good at, its licence, whether it fits, its file.

    `adapter` is the file of the LoRA adapter that it has on.
    """
    lines = [  # what matters most first: there may be no room for all of it
        Content.assemble((one_line(row.name, 60), "bold"), (_facts(row), "$muted")),
        Content.styled(_wrong(row), "$error"),
        Content.styled(_offer(row), "$primary"),
        Content(" ".join(filter(None, (_fits(verdict or row.verdict), _pace(row))))),
        Content(f"{good[:1].upper()}{one_line(good[1:], 200)}"),
        Content.styled(_notes(row), "$muted"),
        Content.styled(f"With the adapter {one_line(adapter)}" if adapter else "", "$muted"),
        Content.styled(_where(row), "$muted"),
    ]
    return Content("\n").join([line for line in lines if line.plain])


def _facts(row: Row) -> str:
    card, entry = row.card, row.entry
    context = (card.context if card else 0) or (entry.context if entry else 0)
    price = told_price(card) if card is not None and card.is_outside else ""
    thinks = {Thinking.ALWAYS: "always thinks first", Thinking.SWITCH: "can think first"}
    facts = [
        one_line(card.id, 40) if card is not None else "",
        ", ".join(row.roles),
        show_size(row.size) if row.size else "",
        show_licence(row.licence) if row.licence else "",
        f"{context:,} tokens" if context else "",
        one_line(card.hardware, 40) if card is not None else "",
        price,
        thinks.get(entry.thinking, "") if entry is not None else "",
    ]
    return "".join(f" · {fact}" for fact in facts if fact)


def told_price(card: Card) -> str:
    """Say what a worker elsewhere costs."""
    if card.price is None:
        return "price unknown: not asked until you enter one"
    if card.price.is_free:
        return "costs nothing"
    rates = card.price.rates
    return f"{show_usd(rates.input)} in, {show_usd(rates.output)} out per million tokens"


def _fits(verdict: Verdict | None) -> str:
    return f"{one_line(verdict.why)} {one_line(verdict.mend)}".strip() if verdict else ""


def _pace(row: Row) -> str:
    """Say about how fast one would write that isn't here."""
    if not row.offered or not row.pace:
        return ""
    if row.pace < 1:
        return "Less than 1 token/s, by how fast the starter model is here."
    return f"About {row.pace:.0f} tokens/s, by how fast the starter model is here."


def _where(row: Row) -> str:
    if row.foreign is not None:
        return f"{one_line(row.foreign.program, 30)}'s: {one_line(str(row.foreign.path))}"
    if row.held is None:
        return (
            f"From hf.co/{one_line(row.entry.source.repo, 90)}" if row.offered and row.entry else ""
        )
    if row.held.state is State.COMING:
        return f"From {one_line(str(row.held.record.source), 150)}"
    linked = "Linked: " if row.held.record.link else ""
    return f"{linked}{one_line(str(row.held.path))}"


def _notes(row: Row) -> str:
    """Tell what its maker and its runner say of it."""
    known = (row.card.note if row.card else "", row.entry.note if row.entry else "")
    return " ".join(dict.fromkeys(one_line(note) for note in known if note))


def _wrong(row: Row) -> str:
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


def _offer(row: Row) -> str:
    """Say what Enter would do, where that takes more than a moment."""
    if fetchable(row) and row.held is not None:
        return (
            "Enter goes on with it." if row.held.state is State.COMING else "Enter fetches it anew."
        )
    if row.entry is None or not row.offered or row.coming is not None:
        return ""
    what = f"Enter downloads it: {show_size(row.size)}" if row.size else "Enter downloads it"
    if not row.entry.free:
        return f"{what}, once you have agreed to its licence ({show_licence(row.licence)})."
    return f"{what}, {show_licence(row.licence)}."
