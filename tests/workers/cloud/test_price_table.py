"""Prices: known ones are plausible, implausible ones are unknown, and unknown is never free."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baton.compose import card_of, compose
from baton.core.errors import BudgetExceeded, ConfigError
from baton.core.hold_decision import unknown_price_error
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Prompt
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import RunTerms, check
from baton.core.view import RunView
from baton.platform.paths import find_paths
from baton.platform.secrets import PROVIDERS
from baton.platform.settings import BudgetSettings, CloudWorkerSettings, PriceSettings, Settings
from baton.workers.cloud import price_table
from baton.workers.cloud.price_table import (
    CONFIGURED,
    asked_name,
    cheapest_model,
    is_same_model,
    model_facts,
    price_of,
    snapshot,
)
from support.fake_cloud import Cloud

GOOD: dict[str, Any] = {
    "input": "2.5",
    "output": "15",
    "cache_read": "0.25",
    "cache_write": "3.125",
    "tiers": [
        {"above": 200_000, "input": "5", "output": "22", "cache_read": "0.5", "cache_write": "6"}
    ],
    "max_input": 1_000_000,
    "max_output": 64_000,
}
RATES = ("input", "output", "cache_read", "cache_write")
FREE: dict[str, Any] = dict.fromkeys(RATES, "0") | {"free": True}

Ship = Callable[[object], None]


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ship]:
    """Let Baton ship with another file of prices."""
    file = tmp_path / "prices.json"
    monkeypatch.setattr(price_table, "PRICES_FILE", file)

    def ship(content: object) -> None:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        file.write_bytes(raw)
        snapshot.cache_clear()

    yield ship
    snapshot.cache_clear()


def price_list(models: object) -> dict[str, object]:
    sources = {
        "litellm": {"date": "2026-01-02", "what": "a test"},
        "models.dev": {"date": "2025-12-31", "what": "another"},
    }
    return {"sources": sources, "left_out": {"no price": ["openai/dear"]}, "models": models}


def corrupt_entries() -> list[Any]:
    """Return 200 entries that are wrong, each in one way."""
    wrong_amounts: list[Any] = [
        *("0", "0.0", "0.000000000", "-1", "-0.25", "NaN", "nan", "inf", "-inf", "Infinity"),
        *("1e3", "1E-6", "0x10", "1_000", "1,5", " 2", "2 ", "+2", "", "free", "$2", "2 USD", "٢"),
        *("0.00000025", "2.5e-06", "0.0009", "100000", "999999999", "1." + "0" * 400, "9" * 400),
        *(None, True, False, 0, 1, 2.5, -2.5, [], ["2"], {}, {"usd": "2"}, 10**30, 1e308),
    ]
    entries: list[Any] = [GOOD | {rate: bad} for rate in RATES for bad in wrong_amounts]
    entries += [{k: v for k, v in GOOD.items() if k != rate} for rate in RATES]
    tier = GOOD["tiers"][0]
    wrong_tiers: list[Any] = [None, "none", {}, 3, [None], ["200000"], [[]], [{}]]
    wrong_tiers += [[tier | {"above": bad}] for bad in (0, -1, True, "200000", None, 2e5, 10**12)]
    wrong_tiers += [[tier | {rate: "0"}] for rate in RATES]
    wrong_tiers += [[{k: v for k, v in tier.items() if k != rate}] for rate in RATES]
    wrong_tiers += [[tier | {"input": "2"}], [tier | {"output": "14"}]]  # dearer, if anything
    wrong_tiers += [[tier, tier], [tier, tier | {"above": 100_000}]]
    entries += [GOOD | {"tiers": tiers} for tiers in wrong_tiers]
    entries += [
        GOOD | {"output": "2.4"},  # less than the input
        GOOD | {"cache_read": "2.6"},
        GOOD | {"cache_read": "0.002"},
        GOOD | {"cache_write": "2.4"},
        GOOD | {"cache_write": "10.1"},
        *(None, "2.5", 2.5, [], [GOOD], True),
    ]
    nothing = FREE | {"tiers": []}
    entries += [FREE | {rate: bad} for rate in RATES for bad in ("1", "0.0", "", 0, None)]
    entries += [FREE | {"free": bad} for bad in (1, "true", "", None, False)]
    entries += [{k: v for k, v in FREE.items() if k != "free"}, nothing | {"tiers": [tier]}]
    entries += [GOOD | {"free": True}]
    return entries


def test_two_hundred_corrupt_entries_are_unknown_and_refused(ship: Ship) -> None:
    entries = corrupt_entries()
    assert len(entries) >= 200
    ship(price_list({"openai/good": GOOD} | {f"openai/{n}": e for n, e in enumerate(entries)}))
    assert price_of("openai/good") is not None
    terms = RunTerms({}, Policy.BUDGET, "auto", False)
    for number, entry in enumerate(entries):
        card = card_of(CloudWorkerSettings(f"w{number}", f"openai/{number}"))
        assert card.price is None, entry
        with pytest.raises(BudgetExceeded, match="is not known, so nothing was sent"):
            check(card, Label.CLOUD, terms)


async def test_not_one_request_is_made_at_a_corrupt_price(
    ship: Ship, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    entries = corrupt_entries()[::40]  # all are unknown, as the test above shows
    names = {"openai/gpt-4o-mini": GOOD} | {f"openai/{n}": e for n, e in enumerate(entries)}
    ship(price_list(names))
    with Cloud() as cloud:
        here = replace(PROVIDERS["openai"], base_url=cloud.base("openai"))
        monkeypatch.setitem(PROVIDERS, "openai", here)
        workers = tuple(CloudWorkerSettings(name, name) for name in names)
        budget = BudgetSettings(day="100", policy=Policy.BUDGET)
        settings = Settings(budget=budget, workers=workers, worker="openai/gpt-4o-mini")
        baton = compose(settings, find_paths(), history=False)
        try:
            for name in reversed(names):  # the good one last
                assert cloud.calls == []
                view = RunView()
                async with baton.orchestra.run(Prompt("Hello"), worker=name) as run:
                    async for event in run:
                        view = view.apply(event)
                assert (view.failure is None) == (names[name] is GOOD), view.failure
        finally:
            await baton.aclose()
        assert len(cloud.calls) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"snapshot": NaN}',
        [],
        {},
        {"models": {"openai/good": GOOD}},
        price_list(None),
        price_list([]),
        price_list("openai/good"),
        price_list(3),
    ],
)
def test_a_broken_file_knows_no_price(ship: Ship, content: object) -> None:
    ship(content)
    assert price_of("openai/good") is None
    assert model_facts("openai/good") is None


def test_a_file_cut_or_flipped_anywhere_never_makes_a_price_zero(ship: Ship) -> None:
    whole = json.dumps(price_list({"openai/good": GOOD})).encode()
    dice = random.Random(3)
    known = 0
    for _ in range(300):
        raw = bytearray(whole[: dice.randrange(len(whole))] if dice.random() < 0.3 else whole)
        for _ in range(dice.randint(1, 3)):
            raw[dice.randrange(len(raw))] = dice.randrange(256) if raw else 0
        ship(bytes(raw))
        price = price_of("openai/good")
        if price is not None:
            known += 1
            assert price.rates.input >= NANO // 1000
            assert price.rates.output >= price.rates.input
    assert known, "some flips hit what is no rate"


def test_a_good_entry_is_read_exactly(ship: Ship) -> None:
    ship(price_list({"openai/good": GOOD | {"reasoning": True, "schema": True}}))
    price = price_of("openai/good")
    assert price is not None
    assert price.rates == Rates(2_500_000_000, 15 * NANO, NANO // 4, 3_125_000_000)
    assert [(t.above, t.rates) for t in price.tiers] == [
        (200_000, Rates(5 * NANO, 22 * NANO, NANO // 2, 6 * NANO))
    ]
    assert price.source == "Baton's list of 2026-01-02"
    ship(
        price_list(
            {"zai/one": GOOD | {"models.dev": "all"}, "zai/two": GOOD | {"models.dev": "output"}}
        )
    )
    sources = [price.source for name in ("zai/one", "zai/two") if (price := price_of(name))]
    mixed = "Baton's list of 2026-01-02, models.dev of 2025-12-31"
    assert sources == ["models.dev of 2025-12-31", mixed]
    ship(price_list({"openai/good": GOOD | {"reasoning": True, "schema": True}}))
    assert model_facts("openai/good") == price_table.ModelFacts(1_000_000, 64_000, True, True)
    ship(price_list({"openai/good": GOOD | {"max_input": True, "max_output": -3}}))
    assert model_facts("openai/good") == price_table.ModelFacts(0, 0)


@pytest.mark.parametrize(
    ("model", "dollars"),
    [  # per million tokens: input, output, read from and written to a cache; read on 2026-11-21
        ("openai/gpt-5-mini", (0.25, 2, 0.025, 0.25)),
        ("openai/gpt-5-pro", (15, 120, 15, 15)),
        ("openai/gpt-4.1", (2, 8, 0.5, 2)),
        ("anthropic/claude-sonnet-4-5", (3, 15, 0.3, 6)),
        ("anthropic/claude-opus-4-5", (5, 25, 0.5, 10)),
        ("gemini/gemini-2.5-pro", (1.25, 10, 0.125, 1.25)),
        ("deepseek/deepseek-chat", (0.28, 0.42, 0.028, 0.28)),
        ("groq/openai/gpt-oss-120b", (0.15, 0.6, 0.075, 0.15)),
        # where models.dev (2026-07-02) is dearer than litellm, or alone
        ("fireworks_ai/accounts/fireworks/models/deepseek-v4-pro", (1.74, 3.48, 0.6, 1.74)),
        ("novita/moonshotai/kimi-k2.6", (0.95, 4, 0.16, 0.95)),
        ("novita/xiaomimimo/mimo-v2.5-pro", (2, 6, 0.4, 2)),
        ("fireworks_ai/accounts/fireworks/models/glm-5p2", (1.4, 4.4, 0.26, 1.4)),
        ("groq/llama-3.3-70b-versatile", (0.59, 0.79, 0.59, 0.59)),
        ("cohere/command-a-plus-05-2026", (2.5, 10, 2.5, 2.5)),
        ("openrouter/openai/gpt-5-mini", (0.25, 2, 0.025, 0.25)),
        # where both say so, or the provider's name for it does
        ("zai/glm-4.7-flash", (0, 0, 0, 0)),
        ("openrouter/openai/gpt-oss-20b:free", (0, 0, 0, 0)),
    ],
)
def test_known_models_have_their_prices(model: str, dollars: tuple[float, ...]) -> None:
    price = price_of(model)
    assert price is not None
    rates = price.rates
    found = (rates.input, rates.output, rates.cache_read, rates.cache_write)
    assert all(
        math.isclose(own / NANO, right) for own, right in zip(found, dollars, strict=True)
    ), found


def test_every_price_that_ships_is_plausible_and_dated() -> None:
    shipped = snapshot()
    assert list(shipped.dates) == ["litellm", "models.dev"]
    assert all(len(date) == len("2026-11-21") for date in shipped.dates.values())
    assert "litellm" in shipped.source
    assert len(shipped.models) > 1000
    assert not shipped.models.keys() & shipped.left_out.keys()
    assert price_table.PRICES_FILE.stat().st_size < 700_000
    for model in shipped.models:
        provider = model.partition("/")[0]
        assert provider in PROVIDERS
        price = price_of(model)
        assert price is not None, model
        assert price.is_free is (shipped.models[model].get("free") is True), model
        assert price.dearest_input >= price.rates.input
        assert model_facts(model) is not None


def test_what_is_listed_has_the_name_that_is_asked() -> None:
    for model in snapshot().models:
        assert asked_name(model) == model
        assert not model.startswith("vertex_ai/") or model.startswith("vertex_ai/gemini-")
    place = "fireworks_ai/accounts/fireworks"
    assert asked_name("fireworks_ai/glm-5p2") == f"{place}/models/glm-5p2"
    assert asked_name("fireworks_ai/glm-5p2-fast-us") == f"{place}/routers/glm-5p2-fast-us"
    assert asked_name("fireworks_ai/not-listed") == f"{place}/models/not-listed"
    card = card_of(CloudWorkerSettings("glm", "fireworks_ai/glm-5p2"))
    assert (card.model, card.price) == (f"{place}/models/glm-5p2", price_of(card.model))


async def test_a_free_model_is_asked_without_a_ceiling_and_still_counts_as_cloud(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAI_API_KEY", "sk-0123456789")
    free, unpriced = "zai/glm-4.7-flash", "zai/nobody-knows"
    with Cloud() as cloud:
        monkeypatch.setitem(PROVIDERS, "zai", replace(PROVIDERS["zai"], base_url=cloud.base("zai")))
        workers = tuple(CloudWorkerSettings(name, name) for name in (free, unpriced))
        baton = compose(Settings(workers=workers, worker=free), find_paths(), history=False)

        async def ask(worker: str) -> RunView:
            view = RunView()
            asked = Prompt("Write to lena@example.org")
            async with baton.orchestra.run(asked, worker=worker) as run:
                async for event in run:
                    view = view.apply(event)
            return view

        try:
            view = await ask(free)
            assert (view.failure, [called.cost for called in view.calls]) == (None, [0])
            [received] = cloud.calls
            assert b"lena@example.org" not in received.body
            [sent] = await baton.ledger.egress()
            assert sent.worker == free
            assert (await ask(unpriced)).failure is not None
            with pytest.raises(ConfigError, match="is a cloud worker"):
                check(baton.orchestra.worker(free).card, Label.LOCAL, baton.orchestra.terms)
            baton.orchestra.go_offline(True)
            assert (await ask(free)).failure is not None
            assert len(cloud.calls) == 1
        finally:
            await baton.aclose()


def test_a_long_prompt_is_held_at_the_dearest_tier() -> None:
    price = price_of("gemini/gemini-2.5-pro")
    assert price is not None
    assert [tier.above for tier in price.tiers] == [200_000]
    assert price.dearest_input == 2_500_000_000
    assert price.dearest_output == 15 * NANO


def test_what_is_not_listed_is_unknown() -> None:
    for model in ("", "openai/gpt-99", "gpt-5-mini", "OPENAI/GPT-5-MINI", "openai/ft:gpt-4o"):
        assert price_of(model) is None
        assert model_facts(model) is None


def test_a_typed_price_wins_and_may_be_zero() -> None:
    typed = PriceSettings("0.25", "$2", cache_read="0.02")
    assert price_of("openai/gpt-5-pro", typed) == Price(
        Rates(NANO // 4, 2 * NANO, 20_000_000, NANO // 4), source=CONFIGURED
    )
    nothing = price_of("", PriceSettings("0", "0"))
    assert nothing is not None
    assert nothing.is_free


@pytest.mark.parametrize("text", ["", "free", "-1", "NaN", "inf", "1e3", "1001", "0,25", "DOLLARS"])
def test_a_typed_price_that_is_none_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match=r"input = .* is not an amount"):
        price_of("openai/gpt-5-mini", PriceSettings(text, "2"))


def test_a_price_for_one_token_is_noticed() -> None:
    with pytest.raises(ConfigError, match="price of one token"):
        price_of("openai/gpt-5-mini", PriceSettings("0.00000025", "0.000002"))


def test_what_to_do_about_an_unknown_price_is_said_to_the_letter() -> None:
    error = unknown_price_error("gpt", "openai/gpt-99")
    assert isinstance(error, BudgetExceeded)
    assert "openai/gpt-99 is not known, so nothing was sent" in error.message
    assert 'id = "gpt"' in error.hint
    assert 'price = { input = "DOLLARS", output = "DOLLARS" }' in error.hint
    assert "per million tokens" in error.hint
    named = unknown_price_error("bedrock/x", "bedrock/x")
    assert "`baton workers add bedrock/x --price INPUT OUTPUT`" in named.hint


def test_the_cheapest_model_is_one_that_still_answers(ship: Ship) -> None:
    cheap = GOOD | {"input": "1", "cache_read": "0.1", "cache_write": "1", "tiers": []}
    ship(
        price_list(
            {
                "openai/dear": GOOD,
                "openai/cheap": cheap | {"until": "2026-01-31"},
                "openai/broken": cheap | {"input": "0"},
                "openai/free": FREE,
                "groq/free": FREE,
                "openrouter/openai/cheap": cheap,
            }
        )
    )
    assert cheapest_model("openai", "2026-01-30") == "openai/cheap"
    assert cheapest_model("openai", "2026-01-31") == "openai/dear"
    assert cheapest_model("groq", "2026-01-31") == "groq/free"
    assert cheapest_model("xai", "2026-01-31") == ""


def test_the_providers_have_a_cheapest_model() -> None:
    found = {name: cheapest_model(name, snapshot().date) for name in PROVIDERS}
    assert [name for name, model in found.items() if not model] == [
        "azure",
        "bedrock",
        "bedrock_mantle",
        "huggingface",
        "perplexity",
        "vercel_ai_gateway",
    ], found


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("openai/gpt-5-nano", "gpt-5-nano-2025-08-07"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
        ("anthropic/claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"),
        ("gemini/gemini-2.5-flash", "gemini-2.5-flash"),
        ("gemini/gemini-flash-latest", "gemini-2.5-flash-preview-09-2025"),
        ("gemini/gemini-1.5-pro", "models/gemini-1.5-pro-002"),
        ("xai/grok-4", "grok-4-0709"),
        ("mistral/mistral-large-latest", "mistral-large-2411"),
        ("openrouter/openai/gpt-5-nano", "openai/gpt-5-nano-2025-08-07"),
        ("openrouter/openrouter/auto", "anthropic/claude"),
        ("openrouter/meta-llama/llama-3.3-70b-instruct:free", "meta-llama/llama-3.3-70b-instruct"),
        ("huggingface/deepseek-ai/DeepSeek-V3.1:novita", "deepseek/deepseek-v3.1"),
        ("huggingface/deepseek-ai/DeepSeek-V3.1:fastest", "deepseek-ai/DeepSeek-V3.1"),
        ("groq/openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("azure/my-deploy", "gpt-4o"),
        (
            "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
            "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        ),
        (
            "fireworks_ai/accounts/fireworks/models/llama-v3p1-8b-instruct",
            "accounts/fireworks/models/llama-v3p1-8b-instruct",
        ),
        ("bedrock_mantle/anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"),
        ("qwen3-8b", "qwen3-8b-q4_k_m.gguf"),
        ("qwen3-8b", "/models/Qwen3-8B-Q4_K_M.gguf"),
        ("qwen3-8b", r"C:\models\Qwen3-8B-UD-Q4_K_XL.gguf"),
        ("llama3", "llama3:latest"),
        ("qwen3:8b", "qwen3:8b"),
        ("m", ""),
        ("baton/auto", "small"),
        ("Qwen/Qwen3-8B-AWQ", "Qwen3-8B"),
        ("deepseek/deepseek-chat", "deepseek-chat"),
        ("cohere/command-a-03-2025", "command-a-03-2025"),
        ("zai/glm-4.6", "glm-4.6"),
        ("xai/grok-code-fast-1", "grok-code-fast-1-0825"),
    ],
)
def test_a_stamp_a_prefix_or_a_form_leaves_a_model_the_same(asked: str, named: str) -> None:
    assert is_same_model(asked, named)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("openai/gpt-5", "gpt-5-nano-2025-08-07"),
        ("qwen3-8b", "qwen3-4b"),
        ("lab", "qwen3-8b"),
        ("llama3", "llama3.1"),
        ("gpt-4o", "gpt-4o-mini"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-20250514"),
        ("qwen3-32b", "gpt-3.5-turbo"),
        ("gemini/gemini-2.5-pro", "gemini-2.5-flash"),
        ("deepseek/deepseek-chat", "deepseek-reasoner"),
        ("kit-1", "kit-2"),
        ("gpt-5", "gpt-5.1"),
        ("qwen3:8b", "qwen3:14b"),
        ("xai/grok-4", "grok-4-fast-reasoning"),
        ("mistral-small-latest", "mistral-large-2411"),
        ("qwen3-8b", "qwen3-8b-thinking"),
    ],
)
def test_another_size_or_version_is_another_model(asked: str, named: str) -> None:
    assert not is_same_model(asked, named)


def test_no_price_is_listed_where_it_depends_on_who_answers() -> None:
    sellers = {"huggingface", "perplexity", "vercel_ai_gateway"}  # OpenRouter takes a highest one
    by_customer = {provider.name for provider in PROVIDERS.values() if not provider.base_url}
    listed = {model.partition("/")[0] for model in snapshot().models}
    assert not listed & (sellers | by_customer)


def test_every_listed_model_is_its_own_and_its_stamped_self() -> None:
    for model in snapshot().models:
        name = model.partition("/")[2]
        assert is_same_model(model, name), model
        is_stamped = re.search(r"-\d\d$", name)
        assert is_stamped or is_same_model(model, f"{name}-2026-01-31"), model
