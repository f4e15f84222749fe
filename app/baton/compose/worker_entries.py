"""Adds workers to config.toml: what runs on this machine, another address, a provider's model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from baton.core.errors import ConfigError
from baton.core.labels import Label, address_label
from baton.platform.settings import (
    CloudWorkerSettings,
    ServerWorkerSettings,
    Settings,
    WorkerSettings,
    write_settings,
)
from baton.platform.settings_sources import plain_address, read_file

if TYPE_CHECKING:
    from baton.workers.local import ServerModel

PRIVATE_QUESTION = (
    "May private conversations go to {names}? Say yes only if it computes on this machine, and "
    "keeps nothing that it is sent"
)
_HERE_QUESTION = (
    "{model} looks like a model that a program only passes on to a cloud. Does it compute on this "
    "machine"
)


@dataclass(frozen=True, slots=True)
class AddOptions:
    """What the user says besides the target of `workers add`.

    `agree` asks the user a question, without a mark at its end. `ask_price` asks what a million
    tokens cost that a model reads and that it writes, in US dollars. Where there is no way to ask,
    the one answers no, and the other is None.
    """

    id: str = ""
    model: str = ""
    price: tuple[str, str] | None = None
    here: bool = False
    private: bool = False
    agree: Callable[[str], bool] = lambda _: False
    ask_price: Callable[[str], tuple[str, str]] | None = None


class PriceUnknown(ConfigError):
    """What a worker costs is in no list, and the user didn't name it."""


@dataclass(frozen=True, slots=True)
class AddedWorker:
    """An entry of `[[workers]]` as it stands now, and whether it was changed."""

    entry: Mapping[str, Any]
    is_changed: bool


def add_worker(target: str, settings: Settings, file: Path, options: AddOptions) -> AddedWorker:
    """Add what `target` names, or confirm what is there: twice the same changes nothing.

    Raises ConfigError.
    """
    known = {entry.id: entry for entry in settings.workers}
    if target in known and not options.id:
        return _confirm(known[target], file, options)
    entry = _new_entry(target, settings, options)
    twin = _same_worker(entry, settings.workers)
    if twin is not None and options.id in ("", twin.id):
        return _confirm(twin, file, options)
    if entry["id"] in known:
        raise ConfigError(
            f"There is a worker {entry['id']!r} already.", "Give this one another name: --id NAME."
        )
    if entry["kind"] == "server":
        entry |= _place(entry, options)
    entry |= _price(entry, options)
    append_workers(file, [entry])
    return AddedWorker(entry, True)


def append_workers(file: Path, added: Iterable[Mapping[str, Any]]) -> None:
    """Append to `[[workers]]`; what stands there stays as it is."""
    import tomlkit

    entries = _entries(file)
    for entry in added:
        table = tomlkit.table()
        for key, value in entry.items():
            table[key] = value
            if isinstance(value, Mapping):
                table[key] = tomlkit.inline_table()
                table[key].update(value)
        entries.append(table)
    if entries:
        write_settings(file, {"workers": entries})


def detected_entries(found: Sequence[ServerModel], options: AddOptions) -> list[dict[str, Any]]:
    """Return the entries of models that were found, having asked where private texts may go.

    To add them is to confirm that those compute here that their engine doesn't forward. Those on
    another host need a price. Raises ConfigError.
    """
    here = [model for model in found if model.is_here and not model.cloud]
    entries = {model.id: model.entry for model in found}
    for model in found:
        if not model.is_here:
            entries[model.id] |= _price(entries[model.id], options)
    if here and options.agree(_private_question(model.id for model in here)):
        for model in here:
            entries[model.id]["privacy"] = Label.LOCAL.value
    return list(entries.values())


def _private_question(ids: Iterable[str]) -> str:
    return PRIVATE_QUESTION.format(names=", ".join(ids))


def _entries(file: Path) -> Any:
    import tomlkit

    return tomlkit.parse(read_file(file).text).get("workers", tomlkit.aot())


def _confirm(known: WorkerSettings, file: Path, options: AddOptions) -> AddedWorker:
    """Confirm that a configured worker computes on this machine, and change what was asked for."""
    if not isinstance(known, CloudWorkerSettings | ServerWorkerSettings):
        raise ConfigError(f"{known.id} is a model of this machine's own.", "It needs no more.")
    changes: dict[str, Any] = {}
    if isinstance(known, ServerWorkerSettings) and any(map(_is_loopback, known.addresses)):
        known_fields = {"model": known.model, "base_url": known.base_url, "id": known.id}
        is_open = known.privacy in (None, Label.LOCAL)
        if (is_open and not (known.here and not options.private)) or options.here:
            changes = _place(known_fields, options, is_confirmed=known.here)
    if options.price is not None:
        changes |= _price({"kind": "cloud"}, options)
    entries = _entries(file)
    entry = next(entry for entry in entries if entry.get("id") == known.id)
    before = dict(entry)
    if changes.get("here") and entry.get("privacy") == Label.CLOUD.value:
        del entry["privacy"]
    for key, value in changes.items():
        entry[key] = value
    if dict(entry) != before:
        write_settings(file, {"workers": entries})
    return AddedWorker(dict(entry), dict(entry) != before)


def _new_entry(target: str, settings: Settings, options: AddOptions) -> dict[str, Any]:
    """Return the entry for a target, without its place and its price. Raises ConfigError."""
    taken = [entry.id for entry in settings.roster]
    if target.startswith(("http://", "https://")):
        return _server_entry(target, options, taken)
    from baton.workers.cloud import (
        did_you_mean,
        full_names,
        known_provider,
        provider_model,
        provider_refusals,
        unknown_provider,
    )

    provider, _, name = target.partition("/")
    if name and provider in provider_refusals():
        raise unknown_provider(provider)
    if name and known_provider(provider) == provider:
        from baton.workers.local import suggest_id

        asked = provider_model(target)
        id = options.id or suggest_id(name, {entry.id for entry in settings.roster})
        return {"id": _twin_id(asked, settings) or id, "kind": "cloud", "model": asked}
    if settings.offline:
        raise ConfigError("Baton is offline, so no engine was looked for.", "Leave offline first.")
    from baton.workers.local import find_server_models

    found = asyncio.run(find_server_models(taken=taken))
    model = next((model for model in found if target in (model.id, model.model)), None)
    if model is None:
        if name:
            provider_model(target)  # raises where it means something
        elif names := full_names(target):
            raise ConfigError(f"{target!r} isn't a model that runs here.", did_you_mean(names))
        there = ", ".join(model.id for model in found) or "none"
        raise ConfigError(
            f"{target!r} is neither an address nor a provider's model nor one that runs here.",
            f"An address begins with http://, a model is as openai/gpt-5-mini. Here runs: {there}.",
        )
    return dict(model.entry) | {"id": options.id or model.id}


def _twin_id(model: str, settings: Settings) -> str:
    """Return the id of the provider's model if it is a worker already, else ""."""
    same = (e for e in settings.workers if isinstance(e, CloudWorkerSettings) and e.model == model)
    return next((entry.id for entry in same), "")


def _server_entry(url: str, options: AddOptions, taken: Sequence[str]) -> dict[str, Any]:
    """Return the entry for a server; which model it has it is asked, on this machine only."""
    from baton.workers.local import list_server_models, suggest_id

    base = url.rstrip("/")
    if not urlsplit(base).path:
        base += "/v1"
    listed = {}
    if _is_loopback(base):
        listed = {model.name: model for model in asyncio.run(list_server_models(base))}
    name = options.model
    if not name:
        names = ", ".join(list(listed)[:12])
        if len(listed) != 1:
            what = f"It has: {names}." if listed else "The server's documentation names it."
            raise ConfigError(f"Which model of {base} is meant?", f"Say --model NAME. {what}")
        name = next(iter(listed))
    id = options.id or suggest_id(name, {*taken})
    entry = {"id": id, "kind": "server", "model": name, "base_url": base}
    is_sold = name in listed and listed[name].cloud
    return entry | ({"privacy": Label.CLOUD.value} if is_sold else {})


def _same_worker(
    entry: Mapping[str, Any], workers: Sequence[WorkerSettings]
) -> WorkerSettings | None:
    """Return the worker that asks the same model at the same address, or None."""
    for known in workers:
        if not isinstance(known, CloudWorkerSettings | ServerWorkerSettings):
            continue
        kind = "cloud" if isinstance(known, CloudWorkerSettings) else "server"
        urls = known.addresses if isinstance(known, ServerWorkerSettings) else (known.base_url,)
        is_there = plain_address(entry.get("base_url", "")) in map(plain_address, urls)
        if is_there and (kind, known.model) == (entry["kind"], entry["model"]):
            return known
    return None


def _is_loopback(url: str) -> bool:
    return address_label(url) is Label.LOCAL


def _place(
    entry: Mapping[str, Any], options: AddOptions, *, is_confirmed: bool = False
) -> dict[str, Any]:
    """Return what says where a server computes: to add one on this machine is to confirm it.

    What looks like a forwarder is one, unless the user says no to that.
    """
    from baton.core.forwarders import forwards_always, looks_forwarded

    urls = entry["base_url"]
    here = [url for url in ([urls] if isinstance(urls, str) else urls) if _is_loopback(url)]
    if not here:
        return {}
    if options.private:
        return {"here": True, "privacy": Label.LOCAL.value}
    model = entry["model"]
    if forwards_always(model):
        return {"privacy": Label.CLOUD.value}
    looks = any(looks_forwarded(model, url) for url in here)
    looks = looks or entry.get("privacy") == Label.CLOUD.value
    is_said = options.here or is_confirmed or entry.get("here")
    if looks and not (is_said or options.agree(_HERE_QUESTION.format(model=model))):
        return {"privacy": Label.CLOUD.value}
    if options.agree(_private_question([entry["id"]])):
        return {"here": True, "privacy": Label.LOCAL.value}
    return {"here": True}


def _price(entry: Mapping[str, Any], options: AddOptions) -> dict[str, Any]:
    """Return the price: as it was named, or asked for where none is known. Raises ConfigError."""
    from baton.core.money import parse_usd

    price = options.price
    if price is None:
        if _has_price(entry):
            return {}
        name = entry["model"]
        if options.ask_price is None:
            from baton.workers.cloud import snapshot

            why = snapshot().left_out.get(name, "")
            raise PriceUnknown(
                f"What {name} costs isn't known, so it was not added{why and f': {why}'}.",
                "Name it in US dollars per million tokens read and written: --price 0.25 2",
            )
        price = options.ask_price(name)
    for amount in price:
        parse_usd(amount)
    return {"price": {"input": price[0], "output": price[1]}}


def _has_price(entry: Mapping[str, Any]) -> bool:
    import msgspec

    from baton.compose.remote_workers import card_of

    kinds = {"cloud": CloudWorkerSettings, "server": ServerWorkerSettings}
    return card_of(msgspec.convert(dict(entry), kinds[entry["kind"]])).price is not None
