"""`baton workers test` and `detect`: a real, short generation, and models of running engines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from baton.cli.exit_codes import exit_code
from baton.cli.json_output import error_object
from baton.cli.output import (
    confirm_or_exit,
    emit,
    emit_document,
    notify,
    require_terminal,
)
from baton.compose import compose, find_host_models
from baton.core.errors import ERROR_CLASSES, BatonError, BudgetExceeded, ConfigError
from baton.core.hold_decision import shown_rounded_up
from baton.core.labels import Label
from baton.core.machine import show_size
from baton.core.messages import Card, Message, Prompt, Role, max_input_tokens
from baton.core.money import format_usd
from baton.core.permissions import PromptLimits, RunTerms, check
from baton.core.run.rule_router import RuleRouter
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.platform.paths import Paths, find_paths
from baton.platform.proxies import is_usable
from baton.platform.settings import ServerWorkerSettings, Settings
from baton.platform.settings_sources import plain_address
from baton.presentation.answers import overcharge_warnings

if TYPE_CHECKING:
    from baton.workers.local import ServerModel


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
        return exit_code(BudgetExceeded) if self.warnings else 0


@dataclass(frozen=True, slots=True)
class AddressTrial:
    """The outcome of a call to one of a worker's addresses: an answer or an error."""

    address: str
    trial: WorkerTrial | None = None
    error: BatonError | None = None

    @property
    def line(self) -> str:
        """What is shown of it."""
        if self.trial is None:
            return f"{self.address} fails: {one_line(str(self.error), 300)}"
        return f"{self.address} works: {self.trial.tokens} tokens in {self.trial.seconds:.1f} s."

    @property
    def as_object(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "address": self.address,
            "status": "finished" if self.trial else "failed",
            "error": error_object(self.error) if self.error else None,
            "tokens": self.trial.tokens if self.trial else 0,
            "seconds": self.trial.seconds if self.trial else 0.0,
            "cost_usd": format_usd(self.trial.cost if self.trial else 0),
        }


def single_addresses(settings: Settings, worker: str) -> dict[str, Settings]:
    """Return settings in which a worker with several addresses has only one, by that address."""
    entry = next((each for each in settings.workers if each.id == worker), None)
    if not isinstance(entry, ServerWorkerSettings) or len(entry.addresses) < 2:
        return {}
    others = [each for each in settings.workers if each is not entry]
    entries = {
        url: replace(entry, base_url=url, slots=slots)
        for url, slots in zip(entry.addresses, entry.address_slots, strict=True)
    }
    return {url: replace(settings, workers=(*others, e)) for url, e in entries.items()}


async def try_addresses(
    alone: Mapping[str, Settings], paths: Paths, worker: str, budget: int | None
) -> list[AddressTrial]:
    """Try each address of a worker, of whose settings each has one: see `single_addresses`."""
    tried: list[AddressTrial] = []
    for url, settings in alone.items():
        try:
            trial = await try_worker(settings, paths, worker, budget)
            tried.append(AddressTrial(url, trial))
        except BatonError as error:
            tried.append(AddressTrial(url, error=error))
    return tried


def report_addresses(worker: str, tried: Sequence[AddressTrial], as_json: bool) -> int:
    """Report what came of each address; return the exit code, of the first that failed."""
    failed = [each.error for each in tried if each.error is not None]
    if as_json:
        cost = format_usd(sum(each.trial.cost for each in tried if each.trial is not None))
        status = "failed" if failed else "finished"
        objects = [each.as_object for each in tried]
        emit_document(status=status, worker=worker, cost_usd=cost, addresses=objects)
    else:
        emit("\n".join(each.line for each in tried))
    codes = [each.trial.report_warnings() for each in tried if each.trial is not None]
    return exit_code(type(failed[0])) if failed else max(codes, default=0)


def confirm_cost(card: Card, settings: Settings, yes: bool, calls: int = 1) -> int | None:
    """Have the user agree to what trying a worker can cost; return that of each of so many calls.

    None: it costs nothing. Raises ConfigError where there is no terminal, and what `check` raises
    if it can't be tried.
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
        f"{one_line(card.model or card.id)} will say hello{f' {calls} times' * (calls > 1)}. It "
        f"costs at most {shown_rounded_up(calls * most)}."
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
    async with aclosing(compose(settings, paths, history=False)) as baton:
        baton.orchestra.configure(router=RuleRouter())  # that worker alone is asked
        card = baton.orchestra.worker(worker).card
        prompt = Prompt(_COMPUTABLE.get(card.id, "17 + 25") if card.is_tool else _PROMPT)
        limits = PromptLimits(
            max_tokens=REMOTE_TOKENS if card.uses_gateway else LOCAL_TOKENS,
            budget=budget,
            attended=False,
            alone=True,
        )
        view = RunView()
        async with baton.orchestra.run(prompt, limits=limits, worker=worker) as run:
            async for event in run:
                view = view.apply(event)
        for sentence in view.substitutions:
            notify(f"baton: {sentence}")
        hardware = baton.orchestra.worker(worker).card.hardware
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


# Models of running engines


_ENGINES = "Ollama, LM Studio, llama-server, vLLM, SGLang"


def new_models(settings: Settings, hosts: Sequence[str]) -> list[ServerModel]:
    """Return the models of running engines that aren't workers yet: here, or on these hosts."""
    from baton.workers.local import TIMEOUT_SECONDS, ask_engines, merge_server_models

    known = {
        (entry.model, plain_address(url))
        for entry in settings.roster
        if isinstance(entry, ServerWorkerSettings)
        for url in entry.addresses
    }
    if hosts:
        models = asyncio.run(find_host_models(settings, find_paths(), hosts))
        answered = {host for model in models for host in model.hosts}
        if silent := [host for host in hosts if host not in answered]:
            notify(f"No engine answered on {', '.join(silent)} ({_ENGINES}).")
    else:
        models = asyncio.run(ask_engines(limit=TIMEOUT_SECONDS))
    new = [one for one in models if (one.model, plain_address(one.addresses[0])) not in known]
    return merge_server_models(new, [entry.id for entry in settings.roster])


def checked_host(host: str) -> str:
    """Return a host's name or address. Raises ConfigError for anything else, a port too."""
    name = host.strip("[]")
    url = f"http://[{name}]" if ":" in name else f"http://{name}"
    if "/" in name or not is_usable(url) or urlsplit(url).port is not None:
        raise ConfigError(
            f"{one_line(repr(host), 80)} is not the name of a host.",
            "It is one like gpu.lan or 10.0.0.2; `baton workers add http://10.0.0.2:8001/v1` adds"
            " what listens at another port.",
        )
    return name.lower()


def server_model_object(model: ServerModel) -> dict[str, Any]:
    return {
        "id": model.id,
        "engine": model.engine,
        "model": model.model,
        "base_url": model.base_url,
        "size": model.size,
        "cloud": model.cloud,
        "slots": model.known_slots,
    }


def select_models(models: Sequence[ServerModel], ids: Iterable[str]) -> list[ServerModel]:
    by_id = {model.id: model for model in models}
    for id in ids:
        if id not in by_id:
            there = ", ".join(by_id) or "none"
            raise ConfigError(f"No new model {id!r} was found.", f"Found: {there}.")
    return [by_id[id] for id in ids] or list(models)


def model_text(model: ServerModel) -> str:
    if model.cloud:
        return f"{model.model}: only forwarded to a cloud, needs a price"
    return f"{model.model}  {show_size(model.size)}" if model.size else model.model


def detection_text(models: Sequence[ServerModel], added: bool, hosts: Sequence[str]) -> str:
    if not models:
        where = f"on {', '.join(hosts)}" if hosts else "here"
        return f"No engine with new models runs {where} ({_ENGINES})."
    if not added:
        return f"`baton workers detect {'--host NAME ' * bool(hosts)}--add` makes them workers."
    unpriced = ""
    if any(model.cloud and model.is_here for model in models):
        unpriced = " What is forwarded needs a price."
    return f"Added to config.toml; `baton ask -m {models[0].id}` asks the first.{unpriced}"
