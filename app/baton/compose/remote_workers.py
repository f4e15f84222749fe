"""Workers that aren't this machine's own, and what is known of them beforehand."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from baton.core.errors import WorkerUnavailable
from baton.core.forwarders import forwards_always, looks_forwarded
from baton.core.labels import Label, address_label, farthest
from baton.core.messages import Card
from baton.core.money import FREE
from baton.ipc.process import ChildDied
from baton.platform.paths import Paths
from baton.platform.settings import (
    CloudWorkerSettings as CloudSettings,
    Effort,
    ServerWorkerSettings as ServerSettings,
    Settings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from baton.core.ports import Worker
    from baton.money import Ledger
    from baton.workers.cloud import Gateway
    from baton.workers.cloud.redaction import Redaction
    from baton.workers.local import ServerModel


HOST_SECONDS = 3.0
"""How long an engine on another host may take to say what it has."""


class RemoteWorkers:
    """The workers that aren't this machine's own, and the gateway that they share.

    Without any there is none: it is made for the first.
    """

    def __init__(self, settings: Settings, paths: Paths, ledger: Ledger) -> None:
        self.gateway: Gateway | None = None
        self.offline = settings.offline
        self._cloud = settings.cloud
        self._paths = paths
        self._ledger = ledger
        self._environ = dict(os.environ)  # the app takes the keys out of its own

    def worker(self, entry: CloudSettings | ServerSettings) -> Worker:
        """Return the worker of an entry of the settings."""
        from baton.workers.cloud import CloudWorker, WorkerAddress

        base_url, addresses = "", []
        if isinstance(entry, CloudSettings):
            base_url = entry.base_url
        else:
            for url, slots in zip(entry.addresses, entry.address_slots, strict=True):
                is_here = _reach_of_address(entry, url) is Label.LOCAL
                addresses.append(WorkerAddress(url, slots, remote=not is_here))
        return CloudWorker(
            card_of(entry, self._cloud.effort),
            self._shared_gateway(),
            base_url=base_url,
            addresses=addresses,
            api_key_env=entry.api_key_env,
            temperature=entry.temperature,
        )

    def redaction(self) -> Redaction | None:
        """Return what hides things in what is sent; None where the settings want nothing hidden."""
        if not self._cloud.redact:
            return None
        from baton.workers.cloud.redaction import Redaction

        return Redaction(self._cloud.words)

    def go_offline(self, offline: bool) -> None:
        """Connect to nothing but this machine, or lift that."""
        self.offline = offline
        if self.gateway is not None:
            self.gateway.offline = offline

    async def aclose(self) -> None:
        """End the gateway."""
        if self.gateway is not None:
            await self.gateway.aclose()

    def _shared_gateway(self) -> Gateway:
        if self.gateway is None:
            from baton.workers.cloud import Gateway, LearnedSettings

            self.gateway = Gateway(
                self._ledger.sent,
                keys_file=self._paths.keys_file,
                record_unsent=self._ledger.record_unsent,
                proxy=self._cloud.proxy,
                effort=self._cloud.effort,
                offline=self.offline,
                home=self._paths.id(),
                learned=LearnedSettings(self._paths.learned_settings),
                environ=self._environ,
            )
        return self.gateway


async def find_host_models(
    settings: Settings, paths: Paths, hosts: Sequence[str]
) -> list[ServerModel]:
    """Return the models of engines on these hosts, each by itself and without an id.

    The gateway asks them, and no other host: at the ports where engines usually are.
    """
    import asyncio

    from baton.workers.cloud import Gateway
    from baton.workers.local import ServerModel

    async def record(call: str, destination: str, body: bytes) -> None:
        raise AssertionError("no call is made")

    gateway = Gateway(record, keys_file=paths.keys_file, offline=settings.offline)
    try:
        found = await asyncio.gather(*(gateway.find_engines(h, HOST_SECONDS) for h in hosts))
    except ChildDied as death:
        raise WorkerUnavailable(
            f"The connection to the cloud crashed. {death}", "Try again."
        ) from death
    finally:
        await gateway.aclose()
    return [
        ServerModel("", m.engine, m.model, (m.base_url,), m.size, m.cloud, (m.slots,))
        for models in found
        for m in models
    ]


def card_of(entry: CloudSettings | ServerSettings, effort: Effort = "low") -> Card:
    """Return what is known of a remote worker before it was ever called."""
    from baton.workers.cloud.price_table import asked_name, model_facts, price_of, thinking_tokens

    cloud = isinstance(entry, CloudSettings)
    model = asked_name(entry.model) if cloud else entry.model
    provider, _, name = model.partition("/") if cloud else ("server", "", model)
    known = model_facts(model) if cloud else None
    privacy, reach = privacy_of(entry), reach_of(entry)
    confirmed = isinstance(entry, CloudSettings) or entry.here or entry.privacy is Label.LOCAL
    # What a provider's model costs somewhere else is not in any list.
    listed = model if isinstance(entry, CloudSettings) and not entry.base_url else ""
    price = price_of(listed, entry.price)
    if price is None and reach is Label.LOCAL:
        price = FREE  # this machine's own electricity
    card = Card(
        entry.id,
        "cloud" if cloud else "server",
        name or model,
        privacy=privacy,
        context=entry.context or (known.context if known else 0),
        max_output=min(entry.max_output, (known and known.max_output) or entry.max_output),
        price=price,
        provider=provider,
        model=model,
        remote=reach is not Label.LOCAL,
        is_confirmed=confirmed,
        slots=entry.slots if isinstance(entry, CloudSettings) else sum(entry.address_slots),
        skills={str(kind): level for kind, level in entry.skills.items()},
        thinking=thinking_tokens(model, effort) if cloud else 0,
        works_offline=works_offline(entry),
        note="" if confirmed or reach is not Label.LOCAL else _UNCONFIRMED.format(id=entry.id),
    )
    return card if entry.system is None else replace(card, system=entry.system)


_UNCONFIRMED = (
    "Nothing says yet that it computes on this machine, so you are asked before it is used. "
    "`baton workers add {id}` confirms it."
)


def privacy_of(entry: CloudSettings | ServerSettings) -> Label:
    """Return which texts that worker may see: what was set, else how far they travel to it.

    Private texts go to another program on this machine only where that was set.
    """
    if isinstance(entry, ServerSettings) and entry.privacy is not None:
        return entry.privacy
    reach = reach_of(entry)
    return Label.LAN if reach is Label.LOCAL else reach


def reach_of(entry: CloudSettings | ServerSettings) -> Label:
    """Return how far a text may really travel, as far as that is known.

    An engine on this machine that forwards to a cloud is one: Ollama for its `:cloud` models in any
    case; what looks like a forwarder, until the user says that it computes here. Of several
    addresses the farthest one decides, since a call may go to any of them.
    """
    if isinstance(entry, CloudSettings):
        return Label.CLOUD
    return farthest(_reach_of_address(entry, url) for url in entry.addresses)


def _reach_of_address(entry: ServerSettings, url: str) -> Label:
    if forwards_always(entry.model):
        return Label.CLOUD
    reach = address_label(url)
    if reach is not Label.LOCAL or entry.here or entry.privacy is Label.LOCAL:
        return reach
    if entry.privacy is not None:
        return entry.privacy
    return Label.CLOUD if looks_forwarded(entry.model, url) else reach


def works_offline(entry: CloudSettings | ServerSettings) -> bool:
    """Whether some of a worker's addresses are on this machine although others aren't."""
    if isinstance(entry, CloudSettings):
        return False
    reaches = {_reach_of_address(entry, url) for url in entry.addresses}
    return Label.LOCAL in reaches and len(reaches) > 1


def entry_warning(entry: CloudSettings | ServerSettings) -> str:
    """Say what is odd about a worker's price or privacy, in a sentence, or return ""."""
    from baton.workers.cloud.price_table import asked_name, price_of

    is_set_free = isinstance(entry, CloudSettings) and entry.price and card_of(entry).is_free
    listed = price_of(asked_name(entry.model)) if is_set_free else None
    if is_set_free and not (listed and listed.is_free):
        return (
            f"The worker {entry.id!r} is in the cloud and set to cost nothing, so no ceiling holds"
            " for what its provider charges."
        )
    label, travels = privacy_of(entry), reach_of(entry)
    if label.allows(travels):
        return ""
    return f"The worker {entry.id!r} is set to {label}, but what it is sent travels to: {travels}."
