"""What other programs need in their settings to use Baton: one file each in `clients`."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from importlib import resources

import msgspec

from baton.core.errors import ConfigError
from baton.core.messages import DEFAULT_CONTEXT, Card
from baton.server.access import ServerTokens

_SUFFIX = ".toml"


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program: `text` is what it needs, in the form that `place` takes.

    `place` is a file, or "shell", "python" or "node"; `start` is the command that uses it.
    `context` is how many tokens its first request takes, as the starter model counts them, with
    room for an answer of 4,096 (0: hardly any).
    """

    title: str
    place: str
    text: str
    start: str = ""
    context: int = 0


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """The worker that answers: `context` is what it reads, `most` what it could be set to read.

    Both are in tokens, 0 where unknown.
    """

    card: Card
    most: int = 0

    @property
    def context(self) -> int:
        """How many tokens it reads now."""
        given = self.card.context or DEFAULT_CONTEXT  # what is declared where it isn't known
        return min(given, self.most) if self.most else given


@dataclass(frozen=True, slots=True)
class PrintedSettings:
    """The settings of a program, exactly as it reads them, and what to do with them."""

    text: str
    notes: tuple[str, ...] = ()


def client_settings(
    name: str, port: int, tokens: ServerTokens, model: AnsweringModel
) -> PrintedSettings:
    """Return a client's settings, or with "list" the clients' names. Raises ConfigError."""
    clients = read_clients()
    if name == "list":
        width = max(map(len, clients))
        return PrintedSettings(
            "\n".join(f"{name:{width}}  {client.title}" for name, client in clients.items())
        )
    client = clients.get(name.lower())
    if client is None:
        near = difflib.get_close_matches(name.lower(), clients, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(clients)}."
        raise ConfigError(f"There are no settings for a client {name[:40]!r}.", hint)
    root = f"http://127.0.0.1:{port}"
    values = {
        "url": f"{root}/v1",
        "root": root,
        "token": tokens.free,
        "context": str(model.context),
        "max_output": str(min(model.card.max_output, model.context // 4)),
    }
    text = client.text
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    notes = (_placing(name.lower(), client), _room(client, model))
    return PrintedSettings(text.rstrip("\n"), tuple(filter(None, notes)))


def read_clients() -> dict[str, Client]:
    """Return the programs by the names that `--print-config` takes."""
    files = resources.files("baton.server").joinpath("clients").iterdir()
    return {
        file.name.removesuffix(_SUFFIX): msgspec.convert(
            tomllib.loads(file.read_text(encoding="utf-8")), Client
        )
        for file in sorted(files, key=lambda file: file.name)
        if file.name.endswith(_SUFFIX)
    }


def _placing(name: str, client: Client) -> str:
    """Say where the settings go, and how the program is started then."""
    command = f"baton serve --print-config {name}"
    started = f"; then `{client.start}`" if client.start else ""
    if client.place == "shell":
        return f'{client.title}: `eval "$({command})"`{started}.'
    if client.place in ("python", "node"):
        return f"{client.title}: `{command} | {client.place} -`"
    return f"{client.title}: `{command} > {client.place}`{started}. Merge it with what is there."


def _room(client: Client, model: AnsweringModel) -> str:
    """Say what to set where the program needs a larger context than the model has, or ""."""
    card = model.card
    if model.context >= client.context:
        return ""
    short = (
        f"{client.title} needs {client.context:,} tokens of context for a short task,"
        f" and {card.id} reads {model.context:,}."
    )
    wanted = 1 << client.context.bit_length()
    if card.kind != "local":
        return f"{short} Set the `context` of {card.id} if it reads more (`baton config edit`)."
    if model.most and model.most < client.context:
        short += f" {card.name} can't read more; `baton models recommend` names others that may."
    return (
        f"{short} The setting is `context` below [local] (`baton config edit`), or"
        f" `BATON_LOCAL__CONTEXT={wanted} baton serve`."
    )
