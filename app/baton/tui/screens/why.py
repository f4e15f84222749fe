"""How an answer came about: who did what, seeing what, how long it took."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from baton.domain.events import Called
from baton.domain.sanitise import one_line, sanitise
from baton.domain.view import RunView, StepView
from baton.tui import keys
from baton.tui.screens.overlay import Overlay

REFRESH_SECONDS = 0.25


class WhyScreen(Overlay[None]):
    """Shows a run, and fills in while it goes on: `run` is asked for it again and again."""

    BINDINGS = keys.WHY
    HEADING = "Why this way"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (as in Textual)

    def __init__(self, run: Callable[[], RunView]) -> None:
        super().__init__()
        self._run = run

    def body(self) -> ComposeResult:
        """Lay out the run."""
        with VerticalScroll():
            yield Static(explain(self._run()), id="explained")

    def on_mount(self) -> None:
        """Follow a run that isn't over yet."""
        if self._run().status == "running":
            self.set_interval(REFRESH_SECONDS, self._follow)

    def _follow(self) -> None:
        self.query_one("#explained", Static).update(explain(self._run()))


def explain(run: RunView) -> Content:
    """Write a run down, for people."""
    lines = [Content(sanitise(run.routed.why) if run.routed else "Nothing is known of this run.")]
    if run.notice:
        lines.append(Content(sanitise(run.notice)))
    for step in run.steps:
        calls = [call for call in run.calls if call.step == step.number]
        lines += [Content(""), _step(step, run.status)]
        lines += [Content.styled(f"   {line}", "$muted") for call in calls for line in _call(call)]
    if run.failure is not None:
        lines += [Content(""), Content.styled(sanitise(run.failure.message), "$error")]
    return Content("\n").join(lines)


def _step(step: StepView, run: str) -> Content:
    unfinished = run != "running" and step.status not in ("done", "failed")
    status = run if unfinished else step.status
    where = one_line(step.step.worker, 30)
    return Content.assemble(
        (f"{step.number}  ", "$primary"),
        (one_line(step.step.subtask, 60), "bold"),
        f"   {where} · {status}",
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
    return [line for line in (tokens, ", ".join(times), ending) if line]
