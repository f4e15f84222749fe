"""The façade that every front end calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from baton.core.errors import BatonError, ConfigError
from baton.core.events import Routed
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.ledger_types import Standing
from baton.core.messages import Card, Prompt, with_unique_names
from baton.core.plan.plan import Outcome, Plan
from baton.core.plan.request_parts import TrainedConductor
from baton.core.plan.skill_table import SkillTable
from baton.core.ports import (
    NEW,
    NO_LEDGER,
    NO_PREFERENCES,
    Ask,
    ConversationPosition,
    Ledger,
    Redactor,
    Router,
    Store,
    Strategy,
    Templates,
    Worker,
    no_templates,
    take_default,
)
from baton.core.run.metered_worker import RunBudget
from baton.core.run.policy import ANYTHING, NOTHING_SPENT, PromptLimits, RunTerms, stronger
from baton.core.run.run import Run
from baton.core.run.run_context import RunRequest, Services
from baton.core.run.worker_slots import Slots
from baton.core.spending.pace_controller import Pacing
from baton.core.strategies import STRATEGIES, make_strategy, strategy_of_mode
from baton.core.view import fold_events


class Orchestra:
    """The workers there are, and the way a prompt goes through them.

    `terms` are what the settings allow; whoever changes them changes what is played from then on.
    `on_offline` hears of `go_offline`: whatever connects must be told there. `router` None is a
    rule; `conductor` is who draws plans ("": `trained`, which comes with Baton; model_roles.RULE:
    no model), `prefer` names the worker for tasks of a kind; `pacer` says whether help pays,
    `skills` what workers are good at; `absent` why workers are not here that the settings name.
    """

    def __init__(
        self,
        workers: Mapping[str, Worker],
        store: Store,
        default: str,
        *,
        ledger: Ledger = NO_LEDGER,
        terms: RunTerms = NOTHING_SPENT,
        redactor: Redactor | None = None,
    ) -> None:
        self._workers = dict(workers)
        self._store = store
        self._ledger = ledger
        self._redactor = redactor
        self._slots = Slots()
        self.default = default
        self.terms = terms
        self.router: Router | None = None
        self.templates: Templates = no_templates
        self.conductor = ""
        self.trained: TrainedConductor | None = None
        self.prefer: Mapping[str, str] = NO_PREFERENCES
        self.pacer = Pacing()
        self.skills = SkillTable()
        self.on_offline: Callable[[bool], None] = _nobody
        self.absent: Mapping[str, BatonError] = {}

    @property
    def roster(self) -> tuple[Card, ...]:
        """The cards of the workers available now."""
        return tuple(worker.card for worker in self._workers.values())

    def worker(self, name: str | None = None) -> Worker:
        """Return the worker with that id, or the default one.

        Raises ConfigError for an unknown one, and what keeps it away for one that is `absent`.
        """
        wanted = name or self.default
        if wanted not in self._workers:
            if (why := self.absent.get(wanted)) is not None:
                raise type(why)(why.message, why.hint)
            known = ", ".join(self._workers)
            hint = "" if name else " The setting `worker` names the one that answers."
            raise ConfigError(f"There is no worker {wanted!r}.", f"Known workers: {known}.{hint}")
        return self._workers[wanted]

    def resident(self, name: str) -> int:
        """Return how many bytes of this machine's memory a worker's model takes now."""
        return int(getattr(self._workers.get(name), "resident", 0))

    @property
    def memory(self) -> int:
        """How many bytes all of them take now; those that share a model count once."""
        taken = {
            getattr(worker, "process", None) or worker: getattr(worker, "resident", 0)
            for worker in self._workers.values()
        }
        return int(sum(taken.values()))

    def adapter(self, name: str) -> str:
        """Return the file of the LoRA adapter that a worker puts on, "" for none."""
        return str(getattr(self._workers.get(name), "adapter", None) or "")

    def add(self, worker: Worker) -> None:
        """Make a worker available from the next prompt on; one of the same id is replaced.

        May be called in another thread than the one that plays.
        """
        self._workers = {**self._workers, worker.card.id: worker}

    async def dismiss(self, name: str) -> None:
        """Let a worker go for good, with its memory.

        The default one is then the first on this machine, if there is another.
        """
        worker = self._workers.pop(name, None)
        if worker is not None:
            await worker.aclose()
        if self.default not in self._workers:
            here = (card.id for card in self.roster if not (card.is_tool or card.uses_gateway))
            self.default = next(here, self.default)

    def stronger(self, name: str | None = None, label: Label = Label.CLOUD) -> Card | None:
        """Return the worker to ask when that one's answer (or the default's) won't do, or None.

        `label` says how far the conversation may travel.
        """
        return stronger(self.worker(name).card, self.roster, label, self.terms)

    def go_offline(self, offline: bool) -> None:
        """Connect to nothing but this machine from now on, or lift that; tells `on_offline`."""
        self.terms = replace(self.terms, offline=offline)
        self.on_offline(offline)

    async def standing(self, session: str | None = None) -> Standing:
        """Return how money stands, in one conversation or apart from any."""
        return await self._ledger.standing(self.terms.ceilings, session)

    def play(
        self,
        prompt: Prompt,
        place: ConversationPosition = NEW,
        limits: PromptLimits = ANYTHING,
        ask: Ask = take_default,
        worker: str | None = None,
        plan: Plan | None = None,
    ) -> Run:
        """Begin a run: enter it with `async with`, then iterate over its events.

        `ask` puts a question to the person. Where a local worker's answer won't do, a stronger one
        elsewhere is offered. A `plan` is played as it is, but by workers that may be used. Raises
        ConfigError for an unknown worker or strategy.
        """
        prompt = replace(prompt, files=with_unique_names(prompt.files))
        name = limits.strategy or ("single" if limits.alone else strategy_of_mode(self.terms.mode))
        purse = self._purse(limits, self.terms)
        if plan is not None:
            return self._run(prompt, place, purse, ask, worker, "plan", Outcome(plan))
        return self._run(prompt, place, purse, ask, worker, name, None)

    def resume(
        self, record: RunRecord, limits: PromptLimits = ANYTHING, ask: Ask = take_default
    ) -> Run:
        """Go on with a run that ended before its plan did; what its steps wrote is kept.

        The answer is a new one beside the old. What the run was allowed to spend and where it was
        allowed to go holds on: the stricter of then and now. Raises ConfigError where there is
        nothing to go on with.
        """
        kept = left_over(record)
        routed = routed_as(record)
        name = limits.strategy or routed.strategy or "plan"
        # Whatever the strategy remembers of its own way is gone: it sees the outcome.
        place = ConversationPosition(record.conversation, again=record.prompt)
        worker = routed.worker if routed.worker in self._workers else None
        budgets = [one for one in (limits.budget, routed.budget) if one is not None]
        budget = min(budgets, default=None)
        limits = replace(limits, alone=limits.alone or routed.alone, budget=budget)
        terms = replace(
            self.terms,
            mode="local" if routed.mode == "local" else self.terms.mode,
            offline=self.terms.offline or routed.offline,
        )
        purse = replace(
            self._purse(limits, terms),
            root=routed.root or record.id,
            is_inherited=budget is not None and budget == routed.budget,
        )
        return self._run(Prompt(""), place, purse, ask, worker, name, kept)

    def _purse(self, limits: PromptLimits, terms: RunTerms) -> RunBudget:
        return RunBudget(self._ledger, self._redactor, terms, limits)

    def _run(
        self,
        prompt: Prompt,
        place: ConversationPosition,
        purse: RunBudget,
        ask: Ask,
        worker: str | None,
        name: str,
        kept: Outcome | None,
    ) -> Run:
        card, limits = self.worker(worker).card, purse.limits
        helper = None
        if not limits.alone:
            helper = stronger(card, self.roster, limits.label, purse.terms)
        task = RunRequest(
            prompt,
            place,
            limits,
            card.id,
            helper.id if helper is not None and helper.uses_gateway else "",
            name,
            None if name == "plan" else self._strategy(name),
            kept,
            worker is None and kept is None and not limits.alone,
        )
        house = Services(
            {worker.card.id: worker for worker in self._workers.values()},
            self._store,
            self.router or _rule(),
            self.templates,
            self._slots,
            self.pacer,
            self.skills,
            self.conductor,
            self.prefer,
            self.trained,
        )
        return Run(task, house, purse, ask)

    def _strategy(self, name: str) -> Strategy:
        """Return a strategy, or one that plays the template of that name. Raises ConfigError."""
        if name not in STRATEGIES and name in (templates := self.templates()):
            from baton.core.strategies._template import TemplateStrategy

            return TemplateStrategy(templates[name])
        return make_strategy(name)

    async def aclose(self) -> None:
        """Let every worker and the router go, each even if another fails to."""
        trained = self.trained.worker if self.trained is not None else None
        async with AsyncExitStack() as closing:
            for part in (*self._workers.values(), trained, self.router):
                if part is not None:
                    closing.push_async_callback(part.aclose)


def routed_as(record: RunRecord) -> Routed:
    """Return how a run was routed, within which bounds."""
    return next((e for e in record.events if isinstance(e, Routed)), Routed(0, "", ""))


def left_over(record: RunRecord) -> Outcome:
    """Return the plan of a run that ended early, and the texts of its steps that were finished.

    Raises ConfigError where there is no plan, or nothing of it left to do.
    """
    view = fold_events(record.events)
    if view.plan is None or record.status == "running":
        what = "is still going on" if record.status == "running" else "never had a plan"
        raise ConfigError(f"The run {record.id} {what}.", "Ask again instead.")
    done = [step for step in view.steps if step.status == "done"]
    if record.status == "finished":
        raise ConfigError(f"The run {record.id} is finished.", "`baton trace` shows it.")
    texts = {step.number: step.text for step in done if step.text}
    return Outcome(view.plan, texts, {step.number for step in done if step.is_cut})


def _rule() -> Router:
    from baton.core.run.rule_router import RuleRouter

    return RuleRouter()


def _nobody(_: bool) -> None:
    """Nothing here connects to anything."""
