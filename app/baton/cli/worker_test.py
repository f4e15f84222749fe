"""A real, short generation: the proof that a worker works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baton.cli.output import confirm_or_exit, notify, require_terminal
from baton.compose import compose
from baton.core.errors import ERROR_CLASSES, BatonError, BudgetExceeded
from baton.core.hold_decision import shown_rounded_up
from baton.core.labels import Label
from baton.core.messages import Card, Message, Prompt, Role, max_input_tokens
from baton.core.run.policy import PromptLimits, RunTerms, check
from baton.core.run.rule_router import RuleRouter
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.platform.settings import Paths, Settings
from baton.presentation.run_objects import overcharge_warnings

LOCAL_TOKENS = 8
REMOTE_TOKENS = 16
"""As few as every provider accepts."""

_PROMPT = "Say hello."
_COMPUTABLE = {
    "units": "42 km -> mi",
    "clock": "today()",
    "python": "```python\nprint(17 + 25)\n```",
}
"""Tools can't be talked to: the others compute "17 + 25"."""


@dataclass(frozen=True, slots=True)
class WorkerTrial:
    """What a worker wrote, on what, and how quickly (`seconds` in all, `loading` of them).

    `cost` is in nano-dollars; `warnings` are those of `overcharge_warnings`.
    """

    text: str
    tokens: int
    seconds: float
    loading: float
    hardware: str
    cost: int = 0
    warnings: Sequence[dict[str, str]] = ()

    def report_warnings(self) -> int:
        """Say on stderr what was charged above its hold; return the exit code."""
        for warning in self.warnings:
            notify(f"baton: {warning['message']} {warning['hint']}")
        return BudgetExceeded.exit_code if self.warnings else 0


def confirm_cost(card: Card, settings: Settings, yes: bool) -> int | None:
    """Have the person agree to what trying a worker can cost; return that, or None for nothing.

    Raises ConfigError where there is no terminal, and what `check` raises if it can't be tried.
    """
    budget = settings.budget
    check(
        card,
        Label.CLOUD,
        RunTerms(budget.ceilings, budget.policy, settings.mode, settings.offline, budget.wait),
    )
    if card.price is None or card.price.is_free:
        return None
    messages = [Message(Role.SYSTEM, card.system), Message(Role.USER, _PROMPT)]
    most = card.price.max_cost(max_input_tokens(messages), REMOTE_TOKENS)
    notify(
        f"{one_line(card.model or card.id)} will say hello. It costs at most "
        f"{shown_rounded_up(most)}."
    )
    if yes:
        return most
    require_terminal("Nothing was sent", "-y sends without asking.")
    confirm_or_exit("Try it?")
    return most


async def try_worker(
    settings: Settings, paths: Paths, worker: str | None, budget: int | None = None
) -> WorkerTrial:
    """Let a worker write a few tokens, of which nothing is kept. Raises what the worker raised.

    One that costs money is only asked within `budget`.
    """
    baton = compose(settings, paths, history=False)
    baton.orchestra.configure(router=RuleRouter())  # that worker alone is asked
    try:
        card = baton.orchestra.worker(worker).card
        prompt = Prompt(_COMPUTABLE.get(card.id, "17 + 25") if card.is_tool else _PROMPT)
        limits = PromptLimits(
            max_tokens=REMOTE_TOKENS if card.uses_gateway else LOCAL_TOKENS,
            budget=budget,
            attended=False,
            alone=True,
        )
        view = RunView()
        async with baton.orchestra.play(prompt, limits=limits, worker=worker) as run:
            async for event in run:
                view = view.apply(event)
        hardware = baton.orchestra.worker(worker).card.hardware
    finally:
        await baton.aclose()
    if (failed := view.failure) is not None:
        raise ERROR_CLASSES.get(failed.error, BatonError)(failed.message, failed.hint)
    call = view.calls[-1]
    return WorkerTrial(
        view.answer,
        call.tokens_out,
        call.seconds,
        call.loading,
        hardware,
        call.cost,
        overcharge_warnings(view),
    )
