"""One gateway for the tests of remote workers: loading litellm takes four seconds of a processor.

Everything around it leads to other places: addresses and proxies in its environment, and `.env`
files in the folder where it starts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from baton.workers.cloud import Gateway
from support.cloud_worker_calls import Log, new_gateway
from support.fake_cloud import Cloud
from support.metered_calls import KEYS, GatewayNetwork, card_of, gateway_of

AUDIT = """
import sys

def heard(event, given):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        where = given[1] if event == "socket.connect" else given[0]
        with open({log!r}, "a") as log:
            print(event, where, file=log)
        if "127.0.0.1" not in str(where):
            raise OSError("no way out")

sys.addaudithook(heard)
"""
"""Has the gateway note what it connects to and looks up, and keeps it on this machine."""

ADDRESSES = (
    *("OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    *("GEMINI_API_BASE", "GOOGLE_GEMINI_BASE_URL", "LITELLM_PROXY_API_BASE"),
    *("OPENROUTER_API_BASE", "GROQ_API_BASE", "XAI_API_BASE", "DEEPSEEK_API_BASE"),
    *("MISTRAL_API_BASE", "MISTRAL_AZURE_API_BASE"),
)


@pytest.fixture(scope="package")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayNetwork]:
    """Return what is around the gateway."""
    with Cloud() as hostile:
        yield GatewayNetwork(hostile, tmp_path_factory.mktemp("audit") / "connections")


@pytest.fixture(scope="package")
def gateway(network: GatewayNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Return the gateway, which knows a key for each provider."""
    audit, folder = network.log.parent, tmp_path_factory.mktemp("a") / "b" / "c"
    (audit / "sitecustomize.py").write_text(AUDIT.format(log=str(network.log)))
    folder.mkdir(parents=True)
    url = network.hostile.url
    lines = [f"{name}={url}" for name in (*ADDRESSES, "HTTP_PROXY", "HTTPS_PROXY")]
    for place in (folder, *folder.parents[:2]):
        (place / ".env").write_text("\n".join(lines))
    named = dict.fromkeys((*ADDRESSES, "http_proxy", "all_proxy"), url)
    no_keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    environ = {**os.environ, **KEYS, **named, **no_keyring, "PYTHONPATH": str(audit)}
    gateway = gateway_of(audit, environ=environ)
    gateway.register(card_of("openai"), *KEYS)  # later it would start again, in another folder
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        gateway.warm()
    yield gateway
    asyncio.run(gateway.aclose())


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway for one test, without litellm as long as it isn't needed."""
    gateway = new_gateway(Log(), tmp_path)
    yield gateway
    await gateway.aclose()
