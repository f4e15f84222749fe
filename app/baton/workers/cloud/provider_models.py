"""What a model's name means that isn't in the list, and why some models and providers aren't
asked.

No text goes where the user didn't name it: a sentence names the right model, and asks for it.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.price_table import asked_name, is_over, snapshot, undated

NAMES_FILE = Path(__file__).with_name("provider_names.toml")
REFUSALS_FILE = Path(__file__).with_name("refused_providers.toml")

MIN_NAME_CHARS = 3
"""A shorter one isn't taken for the beginning of a model's name."""

_SELLERS = 3
"""How many full names are named where a shorter one fits several."""


def provider_model(name: str) -> str:
    """Return the full name by which a provider's model is asked: most often as it was written.

    "" where nothing is known that it could mean. Raises ConfigError for one that isn't asked, and
    with the right name where it has another.
    """
    written, _, model = name.partition("/")
    provider = known_provider(written)
    names = _fitting(name)
    if provider in provider_refusals() and (provider == written or not names):
        refused = unknown_provider(provider)
        raise ConfigError(refused.message, f"{refused.hint} {did_you_mean(names)}".strip())
    if provider and provider == written:
        return _listed_name(name)
    if provider and provider not in provider_refusals():
        meant = f"{provider}/{model}"
        is_listed = any(name.startswith(f"{provider}/") for name in snapshot().models)
        by_short = [full for full in (asked_name(meant),) if full in snapshot().models]
        names = _alike(meant) or by_short or (is_listed and (names or _fitting(model))) or [meant]
    if not names:
        return ""
    raise ConfigError(unknown_provider(written).message, did_you_mean(names))


def refuse_unasked(name: str) -> None:
    """Raise ConfigError for what isn't asked, with the right name where it has another."""
    provider, _, model = name.partition("/")
    if provider not in PROVIDERS:
        provider_model(name)
        unknown = unknown_provider(provider)
        raise ConfigError(unknown.message, did_you_mean(full_names(name)) or unknown.hint)
    if not model:
        hint = f"`baton budget prices {provider}` lists its models."
        raise ConfigError(f"{one_line(name, 80)!r} names no model. Nothing was sent.", hint)
    if reason := why_never_asked(name):
        why, instead = reason
        message = f"Baton doesn't ask {one_line(name, 80)}: {why}. Nothing was sent."
        raise ConfigError(message, instead)


def why_never_asked(name: str) -> tuple[str, str] | None:
    """Return why a provider's model isn't asked, and what to do instead; None for one that is."""
    provider, _, model = name.partition("/")
    fees, asked = _names()["fees"], _names()["asked"].get(provider)
    if any(fnmatchcase(name.lower(), pattern) for pattern in fees["models"]):
        return fees["why"], fees["instead"]
    return None if asked is None or model.startswith(asked["begins"]) else (asked["why"], "")


def _listed_name(name: str) -> str:
    """Return a known provider's model by the name that is asked. Raises ConfigError."""
    refuse_unasked(name)
    full = asked_name(name)
    alike = [] if full in snapshot().models else _alike(name)
    if len(alike) == 1:
        unknown = f"There is no model {one_line(name, 80)!r} in the list of prices."
        raise ConfigError(f"{unknown} Nothing was sent.", did_you_mean(alike))
    return full


def known_provider(written: str) -> str:
    """Return Baton's name of a provider that is asked or refused, however it is written, or ""."""
    known = {_fold(name): name for name in (*provider_refusals(), *PROVIDERS)}
    meant = {
        alias: name for name, aliases in _names()["aliases"].items() for alias in aliases.split()
    }
    return known.get(_fold(meant.get(_fold(written), written)), "")


def full_names(name: str) -> list[str]:
    """Return the full names that a model's name without its provider fits, its maker's first.

    Where none fits, those of its versions. "openai:gpt-5-mini" is a full name, too.
    """
    written, sign, model = re.sub(r"[:\\]", "/", name, count=1).partition("/")
    if sign and model and "/" not in name and (provider := known_provider(written)) in PROVIDERS:
        return _alike(f"{provider}/{model}") or _fitting(model) or [f"{provider}/{model}"]
    found, begun = _fitting(name), _fold(undated(name))
    if found or len(begun) < MIN_NAME_CHARS:
        return found
    makers = (model for model in _by_provider() if model.count("/") == 1)
    return [model for model in makers if _fold(model.partition("/")[2]).startswith(begun)]


@cache
def _names() -> dict[str, Any]:
    return tomllib.loads(NAMES_FILE.read_text("utf-8"))


def _fitting(name: str) -> list[str]:
    """Return the full names that end with that name."""
    wanted = _fold(f"/{name}")
    return [model for model in _by_provider() if _fold(model).endswith(wanted)]


def _alike(name: str) -> list[str]:
    """Return the full names that differ from that one in signs and capitals only."""
    return [model for model in snapshot().models if _fold(model) == _fold(name)]


def _by_provider() -> list[str]:
    """Return the models that aren't withdrawn, those of makers before those of other sellers."""
    today, order = time.strftime("%Y-%m-%d"), [*PROVIDERS]
    return sorted(
        (m for m in snapshot().models if m.partition("/")[0] in order and not is_over(m, today)),
        key=lambda m: (m.count("/"), order.index(m.partition("/")[0])),
    )


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9/]+", "", name.lower())


def why_unusable(words: Iterable[str]) -> dict[str, str]:
    """Return what can't be asked of the models and providers that are named by these words.

    Each by its name, with the reason: models whose names hold all the words, and providers that one
    of them names.
    """
    wanted, today, found = [w.lower() for w in words], time.strftime("%Y-%m-%d"), {}
    models = snapshot().models
    for word in wanted:
        provider = known_provider(word)
        if provider in provider_refusals():
            refused = unknown_provider(provider)
            found[word] = f"{refused.message.removesuffix(' Nothing was sent.')} {refused.hint}"
        elif provider and provider != word:
            found[word] = f"Baton asks these models as {provider}/."
        elif provider and not any(model.startswith(f"{provider}/") for model in models):
            needs = "`price`" if PROVIDERS[provider].base_url else "`base_url` and `price`"
            found[word] = f"The list has no prices of it: a worker's entry needs {needs}."
    over = {m: f"withdrawn on {models[m]['until']}" for m in models if is_over(m, today)}
    named = {**snapshot().left_out, **over}
    return found | {m: named[m] for m in named if all(word in m.lower() for word in wanted)}


def did_you_mean(names: list[str]) -> str:
    """Return the question whether one of these was meant, "" for none."""
    if not names:
        return ""
    shown = [one_line(name, 80) for name in names[:_SELLERS]]
    return f"Did you mean {' or '.join(shown)}? `baton budget prices WORDS` lists others."


@cache
def provider_refusals() -> dict[str, tuple[str, str]]:
    """Return why each isn't asked, as the second half of a sentence, and what to do instead."""
    table = tomllib.loads(REFUSALS_FILE.read_text("utf-8"))
    server = table["server"]
    servers = {
        name: (server["why"], server["instead"].format(url))
        for name, url in server["addresses"].items()
    }
    groups = ((group["names"], (group["why"], group["instead"])) for group in table["groups"])
    return servers | {name: both for names, both in groups for name in names}


def unknown_provider(name: str) -> ConfigError:
    """Return the error for a provider that isn't one of PROVIDERS."""
    if refusal := provider_refusals().get(name):
        why, instead = refusal
        return ConfigError(
            f"Baton doesn't ask the provider {name!r}: {why}. Nothing was sent.", instead
        )
    return ConfigError(
        f"There is no provider {name!r}. Nothing was sent.",
        f"Known: {', '.join(PROVIDERS)}. Another that speaks like OpenAI can be a worker of kind"
        ' "server", with its `base_url`, `api_key_env` and `price`.',
    )
