"""A call to a cloud worker, through gate, ledger, gateway and litellm, to this very machine."""

from __future__ import annotations

import secrets
from contextlib import aclosing
from typing import TYPE_CHECKING

from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.loopback_provider import ANSWER, TOKENS_IN, TOKENS_OUT, LoopbackProvider
from baton.cli.doctor.temporary_home import SelfTestHome, repair_hint
from baton.core.labels import Label
from baton.core.ledger_types import Scope, Status
from baton.core.messages import Card, Message, Request, Role, Text
from baton.core.money import NANO, show_usd
from baton.core.prices import Price, Rates

if TYPE_CHECKING:
    from baton.core.run.metered_worker import CallUsage
    from baton.money import Ledger

_VARIABLE = "BATON_SELF_TEST_API_KEY"
_RUN = "self-test"
PRICE = Price(Rates(3 * NANO, 15 * NANO, 3 * NANO, 3 * NANO), source="the self-test")
COST = (3 * TOKENS_IN + 15 * TOKENS_OUT) * NANO // 1_000_000
"""What the answer costs, computed apart from the ledger."""


async def check_cloud(place: SelfTestHome) -> str | CheckResult:
    """Ask, and see that the answer, the bytes that left and the charge are as they must be."""
    from baton.money import Ledger

    async with LoopbackProvider() as provider:
        if not await provider.is_reachable():
            text = "This machine can't talk with itself (127.0.0.1), so the gateway wasn't tried."
            return CheckResult(
                "cloud", CheckState.WARN, f"{text} Without that, no cloud worker answers."
            )
        ledger = Ledger.open(place.folder / "cloud.db")
        try:
            key = f"self-test-{secrets.token_hex(16)}"
            answer = await _ask_worker(place, ledger, provider, key)
            why = await _find_fault(ledger, provider, key, answer)
        finally:
            await ledger.aclose()
    if why:
        return CheckResult("cloud", CheckState.BROKEN, f"{why} {repair_hint()}")
    return f"a request went through the gateway to this machine, charged exactly {show_usd(COST)}"


async def _ask_worker(
    place: SelfTestHome, ledger: Ledger, provider: LoopbackProvider, key: str
) -> str:
    from baton.core.run.metered_worker import MeteredWorker, RunBudget
    from baton.core.run.policy import ANYTHING, RunTerms
    from baton.workers.cloud import CloudWorker, Gateway

    # No keyring is asked: one that is locked would open a window.
    quiet = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", _VARIABLE: key}
    gateway = Gateway(
        ledger.sent, keys_file=place.paths.keys_file, environ={**place.environ, **quiet}
    )
    address = f"http://127.0.0.1:{provider.port}/v1"
    worker = CloudWorker(CARD, gateway, base_url=address, api_key_env=_VARIABLE)
    terms = RunTerms({Scope.DAY: NANO})
    purse = RunBudget(ledger, None, terms, ANYTHING, run=_RUN, session=_RUN)
    messages = (Message(Role.SYSTEM, "You are brief."), Message(Role.USER, "Play."))
    request = Request(messages, max_tokens=300, label=Label.CLOUD)
    try:
        async with aclosing(MeteredWorker(worker, purse, _ignore_usage).stream(request)) as chunks:
            return "".join([chunk.text async for chunk in chunks if isinstance(chunk, Text)])
    finally:
        await gateway.aclose()


async def _find_fault(ledger: Ledger, provider: LoopbackProvider, key: str, answer: str) -> str:
    """Say what isn't as it must be, or return ""."""
    charges, left = await ledger.charges(_RUN), await ledger.egress(_RUN)
    sent = [body for body in provider.bodies if body]
    if answer != ANSWER:
        return f"The answer of a provider is read wrongly ({answer!r})."
    if [egress.body for egress in left] != sent or len(sent) != 1:
        return "What left isn't what the egress log says."
    if f"Bearer {key}" not in provider.keys or key.encode() in sent[0]:
        return "The key didn't go where it should."
    if [(c.status, c.charged) for c in charges] != [(Status.SETTLED, COST)]:
        return "The ledger doesn't say what the call cost."
    return ""


async def _ignore_usage(_: CallUsage) -> None:
    """What a call used is read from the ledger."""


CARD = Card(
    "self-test",
    "cloud",
    "gpt-4o-mini",
    privacy=Label.CLOUD,
    price=PRICE,
    provider="openai",
    model="openai/gpt-4o-mini",
    remote=True,
)
