"""`baton keys`: the providers' keys, entered hidden and never shown."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
import msgspec

from baton.cli.options import AliasedGroup, completer, yes_option
from baton.cli.output import (
    confirm_or_exit,
    emit,
    emit_document,
    notify,
    require_terminal,
)
from baton.cli.stores import format_columns
from baton.core.errors import BatonError, BudgetExceeded, ConfigError, SecretMissing
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line
from baton.platform import secrets
from baton.platform.paths import find_paths
from baton.platform.secrets import PROVIDERS, Key
from baton.platform.settings import (
    CloudWorkerSettings,
    LocalWorkerSettings,
    ServerWorkerSettings,
    Settings,
    load_settings,
)

_MAX_KEY_CHARS = 1 << 16


_provider = click.argument(
    "provider", shell_complete=completer(lambda: dict.fromkeys(PROVIDERS, ""))
)


@click.group(cls=AliasedGroup)
def keys() -> None:
    """Set, list, remove and test the keys of cloud providers.

    A key is looked for in the keyring, then in the provider's environment variable, then in a file
    that exists only if you said yes to plain text.
    """


@keys.command("set")
@_provider
@click.option("--plaintext", is_flag=True, help="Keep it in a file, as plain text.")
@yes_option
def set_(provider: str, plaintext: bool, yes: bool) -> None:
    """Keep a key for PROVIDER: typed hidden, or piped in.

    \b
      baton keys set openai
      pass show openai | baton keys set openai

    Where there is no keyring, --plaintext keeps it in a file that only you can read, after a
    question (-y answers it). PROVIDER can be a worker's own `api_key_env` as well.
    """
    name = _find_key_name(provider)
    file = find_paths().keys_file
    if plaintext:
        _confirm_plaintext(file, yes)
    else:
        _, why = secrets.keyring_status()
        if why:
            raise _no_keyring_error(name, why)
    try:
        kept = secrets.save_key(name, _read_key(name), file=file if plaintext else None)
    except secrets.NoKeyring as error:
        raise _no_keyring_error(name, error.why) from error
    notify(f"The key for {name} is kept in {_key_place(kept)}.")
    used = secrets.find_key(name, file=file, environ=os.environ)
    if used is not None and used.source != kept.source:
        notify(f"But another one comes first: that in {_key_place(used)}.")


@keys.command("ls", short_help="List the providers, and where each key comes from.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the providers, and where the key of each comes from (its last four characters only)."""
    names = _key_names()
    stored = secrets.find_keys(names, file=find_paths().keys_file, environ=os.environ)
    if as_json:
        return emit_document(keys=[_key_object(name, stored.get(name)) for name in names])
    emit(format_columns([_key_row(name, stored.get(name)) for name in names], left=3))
    keyring, why = secrets.keyring_status()
    if not keyring:
        notify(f"The keyring is not used: {why}.")


@keys.command("rm")
@_provider
def remove(provider: str) -> None:
    """Remove the key of PROVIDER from the keyring and from the file."""
    name, file = _find_key_name(provider), find_paths().keys_file
    places = secrets.remove_key(name, file=file)
    left = secrets.find_key(name, file=file, environ=os.environ)
    if not places:
        where = f"the one in use stands in {_key_place(left)}" if left else "none is set"
        raise SecretMissing(f"No key for {name} is kept by Baton; {where}.")
    notify(f"The key for {name} is removed from {' and '.join(places)}.")
    if left is not None:
        notify(f"There is still one in {_key_place(left)}.")


@keys.command(short_help="Try a key with the cheapest possible call.")
@_provider
@click.option("-m", "--model", metavar="MODEL", help="Ask this one: openai/gpt-5-nano.")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(provider: str, model: str | None, yes: bool, as_json: bool) -> int:
    """Try the key of PROVIDER with the cheapest possible call, once you have seen what it can cost.

    Asked is the worker that costs least among those you set up, else the provider's cheapest model.
    """
    import asyncio

    from baton.cli.worker_probes import confirm_cost, try_worker
    from baton.compose import card_of

    paths, name = find_paths(), _find_key_name(provider)
    if secrets.find_key(name, file=paths.keys_file, environ=os.environ) is None:
        raise SecretMissing(f"There is no key for {name}.", f"`baton keys set {name}` keeps one.")
    settings = load_settings(paths.config_file)
    entry = worker_to_test(settings, name, model)
    others = [worker for worker in settings.workers if worker.id != entry.id]
    settings = msgspec.structs.replace(settings, workers=(*others, entry))
    budget = confirm_cost(card_of(entry), settings, yes)
    trial = asyncio.run(try_worker(settings, paths, entry.id, budget))
    if as_json:
        emit_document(
            status="finished",
            provider=name,
            model=entry.model,
            seconds=trial.seconds,
            cost_usd=format_usd(trial.cost),
            warnings=trial.warnings,
        )
        return trial.report_warnings()
    cost = f" for {show_usd(trial.cost)}" if trial.cost else ""
    emit(f"The key for {name} works: {entry.model} answered in {trial.seconds:.1f} s{cost}.")
    return trial.report_warnings()


def worker_to_test(
    settings: Settings, name: str, model: str | None
) -> CloudWorkerSettings | ServerWorkerSettings:
    """Return the worker with that key that costs least, or one for the provider's cheapest model.

    Raises ConfigError where there is none.
    """
    from baton.compose import card_of
    from baton.workers.cloud import cheapest_model

    own = [
        worker
        for worker in settings.roster
        if not isinstance(worker, LocalWorkerSettings) and key_name(worker) == name
    ]
    priced = [(card.price.max_cost(1000, 100), w) for w in own if (card := card_of(w)).price]
    if priced and model is None:
        return min(priced, key=lambda pair: pair[0])[1]
    if name not in PROVIDERS:
        raise ConfigError(f"No worker with a price uses {name}.", "`baton config edit` adds one.")
    known = model or cheapest_model(name, time.strftime("%Y-%m-%d"))
    if not known:
        raise BudgetExceeded(
            f"No price is known for any model of {name}.",
            f"Set a worker of {name} up with a price: `baton config edit`.",
        )
    full = known if known.startswith(f"{name}/") else f"{name}/{known}"
    return CloudWorkerSettings(id=f"test of {name}", model=full)


def key_name(worker: CloudWorkerSettings | ServerWorkerSettings) -> str:
    """Return the name under which a worker's key is kept."""
    if worker.api_key_env or isinstance(worker, ServerWorkerSettings):
        return worker.api_key_env
    return worker.model.partition("/")[0]


# What can have a key


def _key_names() -> list[str]:
    """Return the providers, and the variables that workers name as their own."""
    own = [
        worker.api_key_env
        for worker in load_settings(find_paths().config_file).roster
        if not isinstance(worker, LocalWorkerSettings) and worker.api_key_env
    ]
    return list(dict.fromkeys([*PROVIDERS, *own]))


def _find_key_name(provider: str) -> str:
    import difflib

    names = _key_names()
    for name in names:
        if provider.lower() == name.lower() or provider in _key_variables(name):
            return name
    from baton.workers.cloud import known_provider

    near = [known_provider(provider)]
    if near[0] not in names:
        near = difflib.get_close_matches(provider.lower(), names, n=1)
    known = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."
    raise ConfigError(f"There is no provider {one_line(provider, 40)!r}.", known)


def _key_variables(name: str) -> tuple[str, ...]:
    return PROVIDERS[name].variables if name in PROVIDERS else (name,)


def _key_row(name: str, key: Key | None) -> list[str]:
    if key is None:
        return [
            name,
            "none",
            f"`baton keys set {name}`, or set {' or '.join(_key_variables(name))}",
        ]
    return [name, f"…{key.tail}" if key.tail else "short", _key_place(key)]


def _key_object(name: str, key: Key | None) -> dict[str, object]:
    return {
        "provider": name,
        "source": "" if key is None else key.source,
        "tail": "" if key is None else key.tail,
        "variables": list(_key_variables(name)),
    }


def _key_place(key: Key) -> str:
    if key.source == "keyring":
        return "the keyring"
    return f"{key.source} (plain text)" if os.sep in key.source else f"the variable {key.source}"


# Entering one


def _read_key(name: str) -> str:
    """Read a key from the keyboard, unseen, or from the pipe. Never from the arguments."""
    if sys.stdin.isatty():
        return _read_hidden_key(name)
    try:
        return sys.stdin.read(_MAX_KEY_CHARS)
    except UnicodeDecodeError:
        raise ConfigError("What was piped in is not a key.", "Pipe in the key alone.") from None


def _read_hidden_key(name: str) -> str:
    import getpass
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass(f"Key for {name} (hidden): ")
        except EOFError:
            return ""
        except getpass.GetPassWarning:
            raise ConfigError(
                "This terminal can't hide what is typed, so no key was read.",
                f"Pipe it in: `pass show KEY | baton keys set {name}`.",
            ) from None


def _confirm_plaintext(file: Path, yes: bool) -> None:
    """Have the user say yes to plain text."""
    if yes:
        return
    require_terminal("The key was not kept", "-y keeps it as plain text without asking.")
    notify(f"The key will stand in {file} as plain text.")
    notify("Anyone who can read that file, or a backup of it, can spend your money.")
    confirm_or_exit("Keep it so?")


def _no_keyring_error(name: str, why: str) -> BatonError:
    return ConfigError(
        f"The key was not kept: {why}.",
        f"Set the variable {_key_variables(name)[0]} instead, or keep the key as plain text in a "
        f"file that only you can read: `baton keys set {name} --plaintext`.",
    )
