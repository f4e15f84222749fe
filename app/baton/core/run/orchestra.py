"""The façade that every front end calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from baton.core.errors import BatonError, ConfigError
from baton.core.events import Routed
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.ledger_types import Standing
from baton.core.messages import Card, Prompt, with_unique_names
from baton.core.permissions import ANYTHING, NOTHING_SPENT, PromptLimits, RunTerms
from baton.core.plan_types import Outcome, Plan
from baton.core.planning.skill_estimates import stronger
from baton.core.ports import (
    NEW,
    AdaptedWorker,
    Ask,
    ConversationPosition,
    ResidentWorker,
    Strategy,
    Worker,
    take_default,
)
from baton.core.reading.bare_expressions import can_compute
from baton.core.run.run import Run
from baton.core.run.run_context import RunRequest, Services
from baton.core.strategies import STRATEGIES, make_strategy, strategy_of_mode
from baton.core.view import fold_events

NO_ABSENT: Mapping[str, BatonError] = {}


class Orchestra:
    """The workers there are, and the way a prompt goes through them.

    `default` is the worker that answers, `terms` are what the settings allow; both may be changed,
    and count from the next prompt on. `on_offline` is called by `go_offline`, with what connects
    behind it. `absent` says why workers are not here that the settings name, and `suggest` what can
    be meant by a name that no worker has, in a sentence, or "".
    """

    def __init__(
        self,
        services: Services,
        default: str,
        terms: RunTerms = NOTHING_SPENT,
        *,
        absent: Mapping[str, BatonError] = NO_ABSENT,
        on_offline: Callable[[bool], None] = lambda offline: None,
        suggest: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._services = services
        self._default = default
        self._terms = terms
        self._absent = absent
        self._on_offline = on_offline
        self._suggest = suggest
        self._changing = threading.Lock()

    @property
    def default(self) -> str:
        """The worker that answers, where the user names none."""
        return self._default

    @property
    def terms(self) -> RunTerms:
        """What the settings allow now."""
        return self._terms

    @property
    def services(self) -> Services:
        """What it is made of now."""
        return self._services

    @property
    def absent(self) -> Mapping[str, BatonError]:
        """Why workers are not here that the settings name."""
        return self._absent

    @property
    def roster(self) -> tuple[Card, ...]:
        """The cards of the workers available now."""
        return tuple(worker.card for worker in self._services.workers.values())

    def worker(self, name: str | None = None, text: str = "") -> Worker:
        """Return the worker with that id, or the default one.

        While that one is `absent`, a tool stands in that can answer the `text` alone. Raises
        ConfigError for an unknown one, and what keeps it away for one that is absent.
        """
        workers, wanted = self._services.workers, name or self.tool_in_place(text) or self._default
        if wanted not in workers:
            if (why := self._absent.get(wanted)) is not None:
                raise type(why)(why.message, why.hint)
            hints = [self._suggest(wanted), f"Known workers: {', '.join(workers)}."]
            hints += [] if name else ["The setting `worker` names the one that answers."]
            raise ConfigError(f"There is no worker {wanted!r}.", " ".join(filter(None, hints)))
        return workers[wanted]

    def tool_in_place(self, text: str) -> str:
        """Return the tool that answers a text though the default worker is absent, or ""."""
        if self._default in self._services.workers or self._default not in self._absent:
            return ""
        tools = (card.id for card in self.roster if card.is_tool)
        return next((tool for tool in tools if can_compute(tool, text)), "")

    def resident(self, name: str) -> int:
        """Return how many bytes of this machine's memory a worker's model takes now."""
        worker = self._services.workers.get(name)
        return worker.resident if isinstance(worker, ResidentWorker) else 0

    @property
    def memory(self) -> int:
        """How many bytes all of them take now; those that share a model count once."""
        workers = [w for w in self._services.workers.values() if isinstance(w, ResidentWorker)]
        return sum({worker.process or worker: worker.resident for worker in workers}.values())

    def adapter(self, name: str) -> str:
        """Return the file of the LoRA adapter that a worker puts on, "" for none."""
        worker = self._services.workers.get(name)
        return str(worker.adapter or "") if isinstance(worker, AdaptedWorker) else ""

    def add(self, worker: Worker) -> None:
        """Make a worker available from the next prompt on; one of the same id is replaced.

        May be called in another thread than the one that runs prompts.
        """
        with self._changing:
            workers = {**self._services.workers, worker.card.id: worker}
            self._services = replace(self._services, workers=workers)

    async def dismiss(self, name: str) -> None:
        """Let a worker go for good, with its memory.

        The default one is then the first on this machine, if there is another.
        """
        with self._changing:
            workers = dict(self._services.workers)
            worker = workers.pop(name, None)
            self._services = replace(self._services, workers=workers)
        if worker is not None:
            await worker.aclose()
        if self._default not in self._services.workers:
            here = (card.id for card in self.roster if card.is_local and not card.is_tool)
            self._default = next(here, self._default)

    def configure(self, *, default: str | None = None, **services: Any) -> None:
        """Change who answers, or any of the Services, from the next prompt on."""
        with self._changing:
            self._default = self._default if default is None else default
            self._services = replace(self._services, **services)

    def change_terms(self, **terms: Any) -> None:
        """Change what the settings allow, from the next prompt on: fields of RunTerms."""
        self._terms = replace(self._terms, **terms)

    def go_offline(self, offline: bool) -> None:
        """Connect to nothing but this machine from now on, or lift that."""
        self.change_terms(offline=offline)
        self._on_offline(offline)

    def stronger(self, name: str | None = None, label: Label = Label.CLOUD) -> Card | None:
        """Return the worker to ask when that one's answer (or the default's) won't do, or None.

        `label` says how far the conversation may travel.
        """
        return stronger(self.worker(name).card, self.roster, label, self._terms)

    async def standing(self, session: str | None = None) -> Standing:
        """Return how money stands, in one conversation or apart from any."""
        return await self._services.ledger.standing(self._terms.ceilings, session)

    def run(
        self,
        prompt: Prompt,
        conversation: ConversationPosition = NEW,
        limits: PromptLimits = ANYTHING,
        ask: Ask = take_default,
        *,
        worker: str | None = None,
        plan: Plan | None = None,
        terms: RunTerms | None = None,
    ) -> Run:
        """Begin a run: enter it with `async with`, then iterate over its events.

        `ask` puts a question to the user. Where a local worker's answer won't do, a stronger
        remote one is offered. A `plan` is run as it is, but by workers that may be used. `terms`
        hold instead of the settings'. Raises ConfigError for an unknown worker or strategy.
        """
        terms = terms or self._terms
        prompt = replace(prompt, files=with_unique_names(prompt.files))
        name = limits.strategy or ("single" if limits.alone else strategy_of_mode(terms.mode))
        kept = None
        if plan is not None:
            name, kept = "plan", Outcome(plan)
        request = self._request(prompt, conversation, limits, terms, worker, name, kept)
        return Run(request, self._services, ask)

    def resume(
        self, record: RunRecord, limits: PromptLimits = ANYTHING, ask: Ask = take_default
    ) -> Run:
        """Continue a run that ended before its plan did; what its steps wrote is kept.

        The answer is a new one beside the old. What the run was allowed to spend and where it was
        allowed to go holds on: the stricter of then and now. Raises ConfigError where there is
        nothing to continue.
        """
        kept, routed = _kept_outcome(record), routed_as(record)
        # What the strategy knew of its own way is lost: it sees the outcome.
        name = limits.strategy or routed.strategy or "plan"
        position = ConversationPosition(record.conversation, again=record.prompt)
        worker = routed.worker if routed.worker in self._services.workers else None
        limits, terms = _strictest_limits(routed, limits, self._terms)
        request = replace(
            self._request(Prompt(""), position, limits, terms, worker, name, kept),
            root=routed.root or record.id,
            is_budget_inherited=limits.budget is not None and limits.budget == routed.budget,
        )
        return Run(request, self._services, ask)

    def _request(
        self,
        prompt: Prompt,
        position: ConversationPosition,
        limits: PromptLimits,
        terms: RunTerms,
        worker: str | None,
        name: str,
        kept: Outcome | None,
    ) -> RunRequest:
        return RunRequest(
            prompt,
            position,
            limits,
            terms,
            self.worker(worker, prompt.text).card.id,
            name,
            None if name == "plan" else self._strategy(name),
            kept,
            is_open=worker is None and kept is None and not limits.alone,
        )

    def _strategy(self, name: str) -> Strategy:
        """Return a strategy, or one that runs the template of that name. Raises ConfigError."""
        if name not in STRATEGIES and name in (templates := self._services.templates()):
            from baton.core.strategies._template import TemplateStrategy

            return TemplateStrategy(templates[name])
        return make_strategy(name)

    async def aclose(self) -> None:
        """Let every worker and the router go at once, each even if another fails to."""
        services = self._services
        trained = services.trained.worker if services.trained is not None else None
        parts = (*services.workers.values(), trained, services.router)
        closing = (part.aclose() for part in parts if part is not None)
        ends = await asyncio.gather(*closing, return_exceptions=True)
        for error in filter(None, ends):
            raise error


def routed_as(record: RunRecord) -> Routed:
    """Return how a run was routed, within which bounds."""
    return next((e for e in record.events if isinstance(e, Routed)), Routed("", ""))


def _strictest_limits(
    routed: Routed, limits: PromptLimits, terms: RunTerms
) -> tuple[PromptLimits, RunTerms]:
    """Return what both a run and the one that continues it are allowed."""
    budget = min((b for b in (limits.budget, routed.budget) if b is not None), default=None)
    mode = "local" if routed.mode == "local" else terms.mode
    # A program's budget allows nothing; but what the user resumes isn't the program's any more.
    is_narrowed = routed.client and limits.budget is None and budget is not None
    client = f"{routed.client} resumed" if is_narrowed else ""
    return (
        replace(limits, alone=limits.alone or routed.alone, budget=budget, client=client),
        replace(
            terms,
            mode=mode,
            offline=terms.offline or routed.offline,
            is_free=terms.is_free or routed.is_free,
        ),
    )


def _kept_outcome(record: RunRecord) -> Outcome:
    """Return the plan of a run that ended early, and the texts of its steps that were finished.

    Raises ConfigError where there is no plan, or none of it is left to do.
    """
    view = fold_events(record.events)
    if view.plan is None or record.status == "running":
        what = "is still running" if record.status == "running" else "never had a plan"
        raise ConfigError(f"The run {record.id} {what}.", "Ask again instead.")
    done = [step for step in view.steps if step.status == "done"]
    if record.status == "finished":
        raise ConfigError(f"The run {record.id} is finished.", "`baton trace` shows it.")
    texts = {step.number: step.text for step in done if step.text}
    return Outcome(view.plan, texts, {step.number for step in done if step.is_cut})
