"""What `baton workers detect` finds: models of running engines that aren't workers yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from baton.cli.output import notify
from baton.compose import find_host_models
from baton.core.byte_format import show_size
from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.proxies import is_usable
from baton.platform.settings import ServerWorkerSettings, Settings, find_paths
from baton.platform.settings_sources import plain_address

if TYPE_CHECKING:
    from baton.workers.local import ServerModel

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
        found = asyncio.run(find_host_models(settings, find_paths(), hosts))
        answered = {host for model in found for host in model.hosts}
        if silent := [host for host in hosts if host not in answered]:
            notify(f"No engine answered on {', '.join(silent)} ({_ENGINES}).")
    else:
        found = asyncio.run(ask_engines(limit=TIMEOUT_SECONDS))
    new = [one for one in found if (one.model, plain_address(one.addresses[0])) not in known]
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


def select_models(found: Sequence[ServerModel], ids: Iterable[str]) -> list[ServerModel]:
    by_id = {model.id: model for model in found}
    for id in ids:
        if id not in by_id:
            there = ", ".join(by_id) or "none"
            raise ConfigError(f"No new model {id!r} was found.", f"Found: {there}.")
    return [by_id[id] for id in ids] or list(found)


def model_text(model: ServerModel) -> str:
    if model.cloud:
        return f"{model.model}: only forwarded to a cloud, needs a price"
    return f"{model.model}  {show_size(model.size)}" if model.size else model.model


def detection_text(found: Sequence[ServerModel], added: bool, hosts: Sequence[str]) -> str:
    if not found:
        where = f"on {', '.join(hosts)}" if hosts else "here"
        return f"No engine with new models runs {where} ({_ENGINES})."
    if not added:
        return f"`baton workers detect {'--host NAME ' * bool(hosts)}--add` makes them workers."
    unpriced = ""
    if any(model.cloud and model.is_here for model in found):
        unpriced = " What is forwarded needs a price."
    return f"Added to config.toml; `baton ask -m {found[0].id}` asks the first.{unpriced}"
