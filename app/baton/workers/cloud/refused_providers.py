"""Providers that Baton doesn't ask as `cloud`, why not, and what to do instead."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from baton.core.errors import ConfigError
from baton.platform.secrets import PROVIDERS

FILE = Path(__file__).with_name("refused_providers.toml")


@cache
def provider_refusals() -> dict[str, tuple[str, str]]:
    """Return why each isn't asked, as the second half of a sentence, and what to do instead."""
    table = tomllib.loads(FILE.read_text("utf-8"))
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
