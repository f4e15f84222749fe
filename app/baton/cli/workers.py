"""`baton workers`: what can answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import click

from baton.cli.budget import rates_object
from baton.cli.options import AliasedGroup, CommandT, complete_worker, offline_option
from baton.cli.output import can_ask, emit, emit_document, notify
from baton.cli.worker_probes import (
    checked_host,
    confirm_cost,
    detection_text,
    model_text,
    new_models,
    report_addresses,
    select_models,
    server_model_object,
    single_addresses,
    try_addresses,
    try_worker,
)
from baton.compose import Baton, compose
from baton.compose.worker_entries import AddOptions, add_worker, append_workers, detected_entries
from baton.core.errors import BatonError, ConfigError
from baton.core.labels import Label, address_label
from baton.core.machine import show_size
from baton.core.messages import Card
from baton.core.money import format_usd
from baton.core.sampling_settings import default_sampling, effective_values
from baton.core.sanitiser import one_line
from baton.platform.durable_files import expand_home
from baton.platform.paths import find_paths
from baton.platform.settings import (
    CloudWorkerSettings,
    LocalWorkerSettings,
    ServerWorkerSettings,
    Settings,
    WorkerSettings,
    load_settings,
)
from baton.presentation.words import price_text

T = TypeVar("T")

_ADD_EXAMPLES = """\b
Examples:
  baton workers add openai/gpt-5-mini
  baton workers add http://127.0.0.1:1234/v1 --model qwen3-8b
  baton workers add llama3.2-3b --private
"""


def _price_option(where: str = "") -> Callable[[CommandT], CommandT]:
    what = f"US dollars for a million tokens read and written{where}."
    return click.option("--price", nargs=2, metavar="INPUT OUTPUT", help=what)


@click.group(cls=AliasedGroup)
def workers() -> None:
    """Show and test what can answer."""


@workers.command("ls", short_help="List the workers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the workers; a star marks the one that answers unless -m says otherwise."""
    cards, default = list_workers()
    if as_json:
        rows = [card_object(card) | {"default": card.id == default} for card in cards]
        return emit_document(workers=rows)
    width = max(len(one_line(card.id)) for card in cards)
    emit("\n".join(_worker_row(card, card.id == default, width) for card in cards))


@workers.command(short_help="Show what is known of a worker, and how it writes.")
@click.argument("worker", shell_complete=complete_worker)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(worker: str, as_json: bool) -> None:
    """Show what is known of WORKER, and how it writes.

    Behind each number stands where it comes from: config.toml, the model's own file, or Baton.
    """
    card, configuration = _find_worker(worker)
    addresses, variable = configured_addresses(load_settings(find_paths().config_file), worker)
    if as_json:
        more = configuration_object(configuration) if configuration is not None else {}
        more |= {
            "address": addresses[0].url if addresses else "",
            "addresses": [asdict(each) for each in addresses],
            "api_key_env": variable,
        }
        return emit_document(**(card_object(card) | more))
    is_list = len(addresses) > 1
    lines = {
        "Worker": card.id,
        "Name": card.name,
        "Model": card.model,
        "Provider": card.provider if card.kind == "cloud" else "",
        "Address": addresses[0].url if len(addresses) == 1 else "",
        **{f"Address {n}": each.line for n, each in enumerate(addresses, 1) if is_list},
        "Key": f"in {variable}" if variable else "",
        "Runs": card.hardware or card.kind,
        "Privacy": _privacy_text(card),
        "Price": price_text(card) if card.uses_gateway else "",
        "Skills": _skills_text(card),
        "At once": "" if card.slots == 1 else f"{card.slots} requests",
        "Context": f"{card.context:,} tokens" if card.context else "",
        "Longest answer": "" if card.is_tool else f"{card.max_output:,} tokens",
        **(configuration_lines(configuration) if configuration is not None else {}),
        "Parameters": f"{card.parameters / 1e6:,.0f} million" if card.parameters else "",
        "File": show_size(card.size) if card.size else "",
        "Licence": card.licence,
        "Note": card.note,
    }
    emit("\n".join(f"{name + ':':16}{one_line(text)}" for name, text in lines.items() if text))


@workers.command(short_help="Find engines that run here or on another host.")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Ask that host; repeatable.")
@click.option("--add", is_flag=True, help="Put them into config.toml.")
@_price_option(", on other hosts")
@offline_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def detect(
    ids: tuple[str, ...],
    hosts: tuple[str, ...],
    add: bool,
    price: tuple[str, str] | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Find engines that run on this machine: Ollama, LM Studio, llama-server, vLLM, SGLang.

    With --add their models become workers: those named, or all that aren't yet. That confirms that
    they compute on this machine, so they are used without asking.

    With --host another host is asked instead, at the usual ports of these engines and at no others.
    A model that several hosts offer becomes one worker with several addresses. It needs a price,
    which is 0 for machines of your own: --price 0 0.
    """
    file = find_paths().config_file
    settings = load_settings(file, flags={"offline": True} if offline else {})
    if settings.offline:
        raise ConfigError("Baton is offline, so no engine was looked for.", "Leave offline first.")
    asked = list(dict.fromkeys(map(checked_host, hosts)))
    models = select_models(new_models(settings, asked), ids)
    if add:
        append_workers(file, detected_entries(models, _options(price=price or None)))
    if as_json:
        return emit_document(models=[server_model_object(model) for model in models])
    width = max((len(model.id) for model in models), default=0)
    for model in models:
        where = f"  on {', '.join(map(one_line, model.hosts))}" if hosts else ""
        emit(f"{model.id:{width}}  {model.engine:12}  {model_text(model)}{where}")
    notify(detection_text(models, add, hosts))


@workers.command(short_help="Add a worker to config.toml.", epilog=_ADD_EXAMPLES)
@click.argument("target", metavar="ID|URL|PROVIDER/MODEL")
@click.option("--id", "id_", metavar="NAME", default="", help="What it is called from now on.")
@click.option("--model", metavar="NAME", default="", help="Which of a server's models.")
@_price_option()
@click.option("--here", is_flag=True, help="It computes on this machine, not in a cloud.")
@click.option("--private", is_flag=True, help="As --here; private conversations may go to it, too.")
@offline_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def add(
    target: str,
    id_: str,
    model: str,
    price: tuple[str, str] | None,
    here: bool,
    private: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Add a worker to config.toml: a model that runs here, an address, or a provider's model.

    To add a server on this machine confirms that it computes here: it is used without asking then,
    as it costs nothing. Private conversations go to it only with --private. A server that seems
    to forward its requests counts as cloud, unless --here says otherwise.
    """
    file = find_paths().config_file
    settings = load_settings(file, flags={"offline": True} if offline else {})
    options = _options(id=id_, model=model, price=price or None, here=here, private=private)
    added = add_worker(target, settings, file, options)
    entry = added.entry
    if as_json:
        return emit_document(worker=entry, changed=added.is_changed)
    notify(_addition_text(entry, added.is_changed, settings))


def _options(**typed: Any) -> AddOptions:
    """Return what was typed, and what can be asked where there is a terminal."""
    return AddOptions(**typed, agree=_agree, ask_price=_ask_price if can_ask() else None)


def _agree(question: str) -> bool:
    """Ask for a yes; without a terminal the answer is no."""
    return can_ask() and click.confirm(f"{question}?", default=False, err=True)


def _ask_price(model: str) -> tuple[str, str]:
    asked = f"US dollars for a million tokens that {model}"
    return click.prompt(f"{asked} reads", err=True), click.prompt(f"{asked} writes", err=True)


@workers.command(short_help="Let a worker write a few tokens.")
@click.argument("worker", shell_complete=complete_worker)
@click.option("-y", "--yes", is_flag=True, help="Don't ask before it costs something.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(worker: str, yes: bool, as_json: bool) -> int:
    """Let WORKER write a few tokens, having asked if that costs something.

    One with several addresses is tried at each.
    """
    paths = find_paths()
    settings = load_settings(paths.config_file)
    alone = single_addresses(settings, worker)
    budget = confirm_cost(_find_worker(worker)[0], settings, yes, max(1, len(alone)))
    if alone:
        tried = asyncio.run(try_addresses(alone, paths, worker, budget))
        return report_addresses(worker, tried, as_json)
    trial = asyncio.run(try_worker(settings, paths, worker, budget))
    if as_json:
        result = asdict(trial)
        cost = format_usd(result.pop("cost"))
        emit_document(status="finished", worker=worker, cost_usd=cost, **result)
        return trial.report_warnings()
    where = f" on {one_line(trial.hardware)}" if trial.hardware else ""
    emit(f"{one_line(worker)} works: {trial.tokens} tokens in {trial.seconds:.1f} s{where}.")
    return trial.report_warnings()


def list_workers() -> tuple[tuple[Card, ...], str]:
    """Return the workers there are, and the id of the one that answers by default."""
    return _read_parts(lambda baton: (baton.orchestra.roster, baton.orchestra.default))


def _find_worker(worker: str) -> tuple[Card, WorkerConfiguration | None]:
    """Return what is known of a worker, and how it writes unless it is a tool."""

    def look(baton: Baton) -> tuple[Card, WorkerConfiguration | None]:
        card = baton.orchestra.worker(worker).card
        if card.is_tool:
            return card, None
        here = baton.local.here.get(worker)
        file = here.model.path if here is not None else None
        return card, worker_configuration(card, baton.settings, file)

    return _read_parts(look)


def _read_parts(read: Callable[[Baton], T]) -> T:
    """Put all parts together without the history, and return what is read of them."""

    async def run() -> T:
        paths = find_paths()
        parts = compose(load_settings(paths.config_file), paths, history=False)
        async with aclosing(parts) as baton:
            return read(baton)

    return asyncio.run(run())


def _worker_row(card: Card, default: bool, width: int) -> str:
    mark = "*" if default else " "
    size = show_size(card.size) if card.size else ""
    more = f"{card.place.value}, {sourced_price_text(card)}" if card.uses_gateway else size
    more += "" if card.is_confirmed else ", not confirmed"
    name = one_line(card.name, 50)
    return f"{mark} {one_line(card.id):{width}}  {card.kind:7}  {name}  {more}".rstrip()


def _privacy_text(card: Card) -> str:
    """Say how far a text travels to a worker, and whether private ones may."""
    if card.place is Label.LOCAL and card.privacy is not Label.LOCAL:
        return "local, but private conversations don't go to it"
    return card.privacy.value


def _skills_text(card: Card) -> str:
    """Say how difficult a task of each kind may be for a worker, the hardest first."""
    best = sorted(card.skills.items(), key=lambda skill: (-skill[1], skill[0]))
    if not best:
        return "" if card.is_tool else f"`baton models show {card.id}`"
    return ", ".join(f"{kind} {level:g}" for kind, level in best) + " (of 5)"


def card_object(card: Card) -> dict[str, Any]:
    """Return a card for machines: its price in US dollars per million tokens, as text."""
    price = card.price and {**rates_object(card.price.rates), "source": card.price.source}
    return asdict(card) | {"price": price}


def sourced_price_text(card: Card) -> str:
    """Say what a worker costs, and where its price comes from."""
    source = card.price.source if card.price is not None and not card.price.is_free else ""
    return f"{price_text(card)} ({source})" if source else price_text(card)


def configured_addresses(settings: Settings, worker: str) -> tuple[list[AddressFacts], str]:
    """Return the addresses and the key's variable that the settings name for a worker."""
    for entry in settings.roster:
        if entry.id == worker and isinstance(entry, CloudWorkerSettings):
            urls = [AddressFacts(entry.base_url, entry.slots)] if entry.base_url else []
            return urls, entry.api_key_env
        if entry.id == worker and isinstance(entry, ServerWorkerSettings):
            pairs = zip(entry.addresses, entry.address_slots, strict=True)
            return [AddressFacts(url, slots) for url, slots in pairs], entry.api_key_env
    return [], ""


def _has_key(name: str) -> bool:
    """Whether a key is found; one whose file can't be read isn't."""
    from baton.platform import secrets

    with suppress(BatonError):
        return secrets.find_key(name, file=find_paths().keys_file, environ=os.environ) is not None
    return False


@dataclass(frozen=True, slots=True)
class AddressFacts:
    """An address of a worker, and how many calls it takes at once."""

    url: str
    slots: int

    @property
    def line(self) -> str:
        """What is shown of it, if it is one of several."""
        place = address_label(self.url)
        where = "this machine" if place is Label.LOCAL else place.value
        return f"{self.url} ({where}, {self.slots} at once)"


def _addition_text(entry: Mapping[str, Any], is_changed: bool, settings: Settings) -> str:
    """Say what a worker counts as now, and what is next."""
    id = one_line(str(entry["id"]))
    first = (
        f"{id} is in config.toml."
        if is_changed
        else f"{id} was there already; nothing was changed."
    )
    if entry["kind"] == "cloud":
        from baton.platform.secrets import ADDRESS_EXAMPLES

        provider = str(entry["model"]).partition("/")[0]
        needs = []
        if provider in ADDRESS_EXAMPLES and not entry.get("base_url"):
            needs.append(f"its `base_url` (like {ADDRESS_EXAMPLES[provider]}: `baton config edit`)")
        if not _has_key(str(entry.get("api_key_env") or provider)):
            needs.append(f"a key (`baton keys set {provider}`)")
        if not any(settings.budget.ceilings.values()):
            needs.append("a ceiling (`baton budget set day 2`)")
        return f"{first} It needs {' and '.join(needs)}." if needs else first
    if entry.get("privacy") == Label.LOCAL.value:
        return f"{first} It computes on this machine; private conversations may go to it."
    if entry.get("here"):
        return (
            f"{first} It computes on this machine, so it is used without asking. Private "
            f"conversations don't go to it; `baton workers add {id} --private` allows that."
        )
    if entry.get("privacy") == Label.CLOUD.value:
        return f"{first} It counts as cloud; `baton workers add {id} --here` if it computes here."
    return f"{first} You are asked before anything is sent there."


_ORIGINS = ("settings", "model", "file", "baton")
_ORIGIN_NAMES = ("config.toml", "suits this model", "its file", "Baton's own")


@dataclass(frozen=True, slots=True)
class WorkerConfiguration:
    """How one worker writes.

    `sampling` has a number for each name and its origin, as an index of `_ORIGINS`; it is empty
    where the model's file can't be read, and of a remote worker but for what was set.
    """

    card: Card
    entry: WorkerSettings
    sampling: Mapping[str, tuple[float, int]]
    settings: Settings


def worker_configuration(card: Card, settings: Settings, file: Path | None) -> WorkerConfiguration:
    """Return how a worker writes whose model is that file, if it is one of this machine."""
    listed = {entry.id: entry for entry in settings.roster}
    entry = listed.get(card.id) or LocalWorkerSettings(card.id, model=card.id)
    if isinstance(entry, LocalWorkerSettings):
        return WorkerConfiguration(card, entry, _sampling(entry, file), settings)
    set = {} if entry.temperature is None else {"temperature": (entry.temperature, 0)}
    return WorkerConfiguration(card, entry, set, settings)


def _sampling(entry: LocalWorkerSettings, file: Path | None) -> Mapping[str, tuple[float, int]]:
    from baton.workers.local import STARTER, find_model, read_model_header

    try:
        if file is None:
            return {}
        header = read_model_header(file)
        suits = find_model(STARTER).temperature if entry.model == STARTER else None
    except BatonError:
        return {}
    settings = {name: getattr(entry, name) for name in default_sampling(0)}
    return effective_values(
        settings, {"temperature": suits}, header.sampling, default_sampling(header.parameters)
    )


# For people


def configuration_lines(configuration: WorkerConfiguration) -> dict[str, str]:
    """Return the lines that say how a worker writes."""
    entry = configuration.entry
    lines = {
        "Writes with": _sampling_text(configuration),
        "System text": _system_text(configuration),
    }
    if isinstance(entry, LocalWorkerSettings):
        lines |= {
            "Seed": _seed_text(configuration, entry),
            "Adapter": _adapter_text(entry),
            "Loaded with": _loading_text(entry, configuration.settings),
        }
        if entry.thinking is not None:
            lines["Thinks"] = f"{'yes' if entry.thinking else 'no'} ({_ORIGIN_NAMES[0]})"
    return lines


def _sampling_text(configuration: WorkerConfiguration) -> str:
    is_remote = isinstance(configuration.entry, CloudWorkerSettings | ServerWorkerSettings)
    if is_remote and not configuration.sampling:
        return "what is usual there"
    by = sorted(configuration.sampling.items(), key=lambda one: one[1][1])
    groups = groupby(by, key=lambda one: one[1][1])
    return "; ".join(
        ", ".join(f"{name} {number:g}" for name, (number, _) in group)
        + f" ({_ORIGIN_NAMES[origin]})"
        for origin, group in groups
    )


def _seed_text(configuration: WorkerConfiguration, entry: LocalWorkerSettings) -> str:
    if entry.seed is not None:
        return f"{entry.seed} ({_ORIGIN_NAMES[0]})"
    always = configuration.sampling.get("temperature", (1.0, 0))[0] == 0
    return "not needed: the likeliest word is taken" if always else "by chance"


def _system_text(configuration: WorkerConfiguration) -> str:
    if not configuration.card.system:
        return "none"
    whose = _ORIGIN_NAMES[3] if configuration.entry.system is None else _ORIGIN_NAMES[0]
    return f"\u201c{one_line(configuration.card.system, 120)}\u201d ({whose})"


def _adapter_text(entry: LocalWorkerSettings) -> str:
    if not entry.adapter:
        return ""
    path = expand_home(entry.adapter).absolute()
    if not path.is_file():
        return f"{path}, which isn't there: without it, this worker can't answer"
    return f"{path}, {show_size(path.stat().st_size)}, with a strength of {entry.adapter_scale:g}"


def _loading_text(entry: LocalWorkerSettings, settings: Settings) -> str:
    local = settings.local
    threads = local.threads if entry.threads is None else entry.threads
    layers = local.gpu_layers if entry.gpu_layers is None else entry.gpu_layers
    return ", ".join(
        (
            f"kv {entry.kv or local.kv}",
            f"{threads or 'a'} thread{'s' if threads > 1 else ''}{'' if threads else ' per core'}",
            "as many layers on a GPU as fit" if layers < 0 else f"{layers} layers on a GPU",
            *(["however little memory is free"] if entry.force else []),
        )
    )


# For machines


def configuration_object(configuration: WorkerConfiguration) -> dict[str, Any]:
    """Return how a worker writes, for machines; what is None holds nowhere or isn't known."""
    entry = configuration.entry
    result: dict[str, Any] = {
        "sampling": {
            name: {"value": round(number, 6), "from": _ORIGINS[origin]}
            for name, (number, origin) in configuration.sampling.items()
        },
        "seed": None,
        "thinking": None,
        "adapter": None,
    }
    if isinstance(entry, LocalWorkerSettings):
        result |= {"seed": entry.seed, "thinking": entry.thinking}
        if entry.adapter:
            path = expand_home(entry.adapter).absolute()
            result["adapter"] = {"file": str(path), "scale": entry.adapter_scale}
    return result
