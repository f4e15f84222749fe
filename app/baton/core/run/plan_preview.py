"""What a plan can cost, and whether the person lets it be played."""

from __future__ import annotations

from dataclasses import replace

from baton.core.messages import Message, Role
from baton.core.plan.plan import Plan
from baton.core.ports import Choice, Question
from baton.core.run.approval import PromptWithdrawn
from baton.core.run.run_context import RunContext
from baton.core.run.step_executor import StepExecution

BYTES_PER_TOKEN = 4
"""About how many bytes a token of an answer has: the step that reads it is billed for them."""

GO, STOP, EDIT = "go", "stop", "edit"
"""What a person may say to a plan."""


async def approve_plan(run: RunContext, plan: Plan) -> None:
    """Let the person decide before anything of a plan is called. Raises PromptWithdrawn."""
    choices = (Choice(GO, "Play it"), Choice(STOP, "Stop here"), Choice(EDIT, "Edit it"))
    costs = await _step_costs(run, plan)
    if await run.ask(Question("Play this plan?", choices, STOP, plan=plan, costs=costs)) != GO:
        raise PromptWithdrawn


async def _step_costs(run: RunContext, plan: Plan) -> tuple[int | None, ...]:
    """Return what each step can cost at most (None: it has no price).

    The results that it reads are not there yet; they are taken to be as long as expected.
    """
    costs: list[int | None] = []
    lengths: list[int] = []
    for number, step in enumerate(plan.steps, start=1):
        card = run.routing.card(step.worker)
        request = StepExecution(run, plan, number, inputs={}).request()
        lengths.append(request.expected_tokens or card.max_output)
        if card.price is None or card.price.is_free:
            costs.append(None if card.price is None else 0)
            continue
        unread = sum(lengths[n - 1] for n in step.inputs) * BYTES_PER_TOKEN
        read = (*request.messages, Message(Role.USER, "-" * unread))
        request = replace(request, messages=read if unread else request.messages)
        bill = (await run.budget.prepare(card, request)).bill
        costs.append(0 if bill is None else (await run.budget.quote(bill))[0])
    return tuple(costs)
