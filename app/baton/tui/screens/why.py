"""How an answer came about: who did what, seeing what, how long it took, and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from baton.domain.events import Called, Decision, Offered
from baton.domain.money import show_usd
from baton.domain.sanitise import one_line, sanitise
from baton.domain.spending import at_least
from baton.domain.view import RunView, StepView
from baton.tui import keys
from baton.tui.facts import Roster, name_of, place_of
from baton.tui.screens.overlay import Overlay

if TYPE_CHECKING:
    from baton.adapters.ledger import Ledger

REFRESH_SECONDS = 0.25
DRAFT_CHARACTERS = 600
_DECIDED = {
    Decision.SENT: "sent",
    Decision.KEPT: "kept here",
    Decision.EDIT: "to be changed first",
    Decision.CEILING: "not sent, for the ceiling",
    Decision.NEVER: "not sent",
}


class WhyScreen(Overlay[None]):
    """Shows a run, and fills in while it goes on: `run` is asked for it again and again."""

    BINDINGS = keys.WHY
    HEADING = "Why this way"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (as in Textual)

    def __init__(self, run: Callable[[], RunView], roster: Roster, ledger: Ledger) -> None:
        super().__init__()
        self._run = run
        self._roster = roster
        self._ledger = ledger

    def body(self) -> ComposeResult:
        """Lay out the run."""
        with VerticalScroll():
            yield Static(explain(self._run(), self._roster), id="explained")

    def on_mount(self) -> None:
        """Follow a run that isn't over yet."""
        if self._run().status == "running":
            self.set_interval(REFRESH_SECONDS, self._follow)

    def _follow(self) -> None:
        self.query_one("#explained", Static).update(explain(self._run(), self._roster))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to show what was sent only where something was."""
        return bool(self._run().sent) if action == "egress" else True

    def action_egress(self) -> None:
        """Show what this run sent."""
        from baton.tui.screens.egress import EgressScreen

        if (started := self._run().started) is not None:
            self.app.push_screen(EgressScreen(self._ledger, started.run))


def explain(run: RunView, roster: Roster) -> Content:
    """Write a run down, for people."""
    lines = [Content(sanitise(run.routed.why) if run.routed else "Nothing is known of this run.")]
    if run.notice:
        lines.append(Content(sanitise(run.notice)))
    for step in run.steps:
        calls = [call for call in run.calls if call.step == step.number]
        lines += [Content(""), _step(step, run, roster)]
        lines += [Content.styled(f"   {line}", "$muted") for call in calls for line in _call(call)]
        lines += [Content.styled(f"   {line}", "$muted") for line in _draft(step, run)]
    for offer in run.offers:
        lines += [Content(""), *_offer(offer, roster)]
    if run.failure is not None:
        lines += [Content(""), Content.styled(sanitise(run.failure.message), "$error")]
    if total := _total(run):
        lines += [Content(""), Content(total)]
    return Content("\n").join(lines)


def _step(step: StepView, run: RunView, roster: Roster) -> Content:
    unfinished = run.status != "running" and step.status not in ("done", "failed")
    status = run.status if unfinished else step.status
    worker = step.step.worker
    place = place_of(worker, run, roster)
    where = "" if place == "local" else f" · {place}"
    return Content.assemble(
        (f"{step.number}  ", "$primary"),
        (one_line(step.step.subtask, 60), "bold"),
        f"   {one_line(worker, 30)}{where} · {status}",
        (f"\n   sees {', '.join(one_line(name, 40) for name in step.step.access)}", "$muted"),
    )


def _call(call: Called) -> list[str]:
    known = f" ({call.cached:,} of them remembered)" if call.cached else ""
    tokens = f"read {call.tokens_in:,} tokens{known}, wrote {call.tokens_out:,}"
    times = [f"{call.seconds:.1f} s in all"]
    if call.loading > 0.05:
        times.append(f"{call.loading:.1f} s loading")
    if call.first_token is not None:
        times.append(f"first word after {call.first_token:.1f} s")
    ending = "" if call.confirmed else "ended before the worker was done"
    money = (
        f"held {at_least(call.held)}, {_charged(call.cost, call.confirmed)}" if call.held else ""
    )
    return [line for line in (tokens, ", ".join(times), ending, money) if line]


def _charged(cost: int, confirmed: bool) -> str:
    charged = f"charged {show_usd(cost)}"
    return charged if confirmed or not cost else f"{charged}, unconfirmed"


def _draft(step: StepView, run: RunView) -> list[str]:
    """Quote the beginning of a text that another step's replaced."""
    replaced = run.plan is not None and step.number not in run.plan.answer
    if not replaced or not step.text.strip() or step.status == "failed":
        return []
    return [f"its draft: {one_line(step.text, DRAFT_CHARACTERS)}"]


def _offer(offer: Offered, roster: Roster) -> list[Content]:
    name = one_line(name_of(offer.worker, roster), 40)
    cost = f"at most {at_least(offer.most)}" if offer.most else "for nothing"
    hidden = f", hidden: {one_line(offer.hidden)}" if offer.hidden else ""
    decided = _DECIDED[offer.decision]
    first = Content.assemble((f"Offered: {name}", "bold"), f", {cost} · {decided}")
    about = f"   {one_line(offer.why)} {offer.size:,} bytes of text{hidden}."
    return [first, Content.styled(about, "$muted")]


def _total(run: RunView) -> str:
    """Write what a run held, was charged and sent, if it did."""
    held = sum(call.held for call in run.calls)
    unsure = sum(call.cost for call in run.calls if not call.confirmed)
    parts = []
    if held:
        doubt = f", {show_usd(unsure)} of it unconfirmed" if unsure else ""
        parts.append(f"Held {at_least(held)}, charged {show_usd(run.cost)}{doubt}.")
    if run.sent:
        size = sum(sent.size for sent in run.sent)
        hosts = ", ".join(dict.fromkeys(one_line(sent.destination, 40) for sent in run.sent))
        parts.append(f"Sent to {hosts}: {size:,} bytes (Enter shows them).")
    return " ".join(parts)
