"""What a cloud worker's tokens cost: from the configuration, else from a snapshot in this package.

`prices.json` is made by scripts/prices from two public lists, and is read when a price is first
looked up. A price beyond sane bounds counts as unknown, and an unknown price is never taken for
zero: such a worker isn't called until a price is configured. Zero is a price where a list says so
and the entry is marked free.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from baton.core.errors import ConfigError
from baton.core.money import NANO, Price, Rates, Tier
from baton.workers.cloud.model_settings import family_of, openais_name

if TYPE_CHECKING:
    from baton.platform.settings import PriceSettings

PRICES_FILE = Path(__file__).with_name("prices.json")

MODELS_DEV = "models.dev"
"""The second list. An entry names by it which of its rates come from there: "all", or their names
with a blank between; the others are litellm's."""

CONFIGURED = "config.toml"
"""The source of a price that the user configured."""

_THINKING_TOKENS = {"none": 1024, "minimal": 1024, "low": 2048, "medium": 8192, "high": 24_576}
"""Tokens that Google allows its models to think at each effort ("low": twice that, since OpenAI and
xAI name no limit); some models can't be kept from thinking."""

_RATES = ("input", "output", "cache_read", "cache_write")
_DECIMAL = re.compile(r"[0-9]{1,5}(\.[0-9]{1,9})?")
_MIN_RATE = NANO // 1000
"""A tenth of a cent per million tokens: a lower amount is the price of one token."""

_MAX_INPUT_RATE = 1_000 * NANO
_MAX_OUTPUT_RATE = 10_000 * NANO
_MAX_TOKENS = 100_000_000


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model can do; 0 tokens is unknown.

    `schema`: it keeps to one. `until`: the day of its end, if that is known.
    """

    context: int
    max_output: int
    reasoning: bool = False
    schema: bool = False
    until: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The prices that ship with Baton, as they stand in the file.

    `dates` says of which day each list is that they come from, the main one first; `left_out` why
    models of these lists have no price here.
    """

    dates: Mapping[str, str]
    source: str
    models: dict[str, Any]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """The day of the main list."""
        return next(iter(self.dates.values()), "an unknown day")


def price_of(model: str, override: PriceSettings | None = None) -> Price | None:
    """Return a model's price ("openai/gpt-5-mini"), or None if it isn't known.

    A configured one wins, and may be 0. Raises ConfigError if that one makes no sense.
    """
    if override is not None:
        return _configured_price(override)
    entry = _entry(model)
    return None if entry is None else parse_price(entry, _source_of(entry))


def _source_of(entry: Mapping[str, Any]) -> str:
    """Return which list an entry's price is from, and of which day."""
    main, other = f"Baton's list of {snapshot().date}", snapshot().dates.get(MODELS_DEV, "")
    if not (rates := entry.get(MODELS_DEV)):
        return main
    return f"{MODELS_DEV} of {other}" if rates == "all" else f"{main}, {MODELS_DEV} of {other}"


def model_facts(model: str) -> ModelFacts | None:
    """Return what is known of a model besides its price, or None."""
    if (entry := _entry(model)) is None:
        return None
    return ModelFacts(
        _tokens(entry.get("max_input")),
        _tokens(entry.get("max_output")),
        entry.get("reasoning") is True,
        entry.get("schema") is True,
        str(entry.get("until", "")),
    )


def known_facts(model: str) -> ModelFacts | None:
    """Return what is known of a model, or of the one that another provider resells by that name."""
    resold = model.removeprefix("openrouter/").removeprefix("vercel_ai_gateway/")
    names = (model, openais_name(model), resold)
    return next((known for name in names if (known := model_facts(name)) is not None), None)


def asked_name(model: str) -> str:
    """Return the name by which a model is asked: Fireworks' short ones leave its folders out."""
    provider, _, name = model.partition("/")
    if provider != "fireworks_ai" or "/" in name:
        return model
    places = [f"{provider}/accounts/fireworks/{kind}/{name}" for kind in ("models", "routers")]
    return next((place for place in places if place in snapshot().models), places[0])


def thinking_tokens(model: str, effort: str) -> int:
    """Return how many tokens a model may think at an effort; one that isn't known may think."""
    known, family = model_facts(model), family_of(model)
    if known is not None and not (known.reasoning or family.thinks):
        return 0
    return _THINKING_TOKENS.get(family.level(effort), _THINKING_TOKENS[effort])


def cheapest_model(provider: str, today: str) -> str:
    """Return the provider's model that costs least and isn't at its end on that day, or "".

    A free one only where there is no other: those are refused more often, with any key.
    """
    costs: dict[str, tuple[bool, int]] = {}
    for model in (name for name in snapshot().models if name.startswith(f"{provider}/")):
        price = price_of(model)
        if price is not None and not is_over(model, today):
            costs[model] = (price.is_free, price.max_cost(1000, 100))
    return min(costs, key=lambda model: costs[model], default="")


_DATE_SUFFIX = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


def successor_of(model: str, said: str, today: str) -> str:
    """Return the model that takes the place of a withdrawn one, or "" where that isn't certain.

    It is the only other model of the list that the provider names in what it `said`, else the same
    one without its date.
    """
    provider, _, name = model.partition("/")
    offered = {
        other.removeprefix(f"{provider}/")
        for other in snapshot().models
        if other.startswith(f"{provider}/") and other != model and not is_over(other, today)
    }
    words = {word.strip(".,:;!?'\"`()[]") for word in re.split(r"\s+", said)}
    named = {word.removeprefix(f"{provider}/") for word in words} & offered
    if len(named) == 1:
        return f"{provider}/{named.pop()}"
    plain = undated(name)
    return f"{provider}/{plain}" if plain in offered and not named else ""


def undated(name: str) -> str:
    """Return a model's name without the date of its version."""
    return _DATE_SUFFIX.sub("", name)


def is_over(model: str, today: str) -> bool:
    """Whether a model is withdrawn by that day, as far as that is known."""
    known = model_facts(model)
    return known is not None and "" < known.until <= today


@cache
def snapshot() -> Snapshot:
    """Read the prices that ship with Baton; a broken file is an empty one."""
    try:
        raw = msgspec.json.decode(PRICES_FILE.read_bytes())
        sources = {str(name): dict(source) for name, source in dict(raw["sources"]).items()}
        left_out = {name: str(why) for why, names in raw["left_out"].items() for name in names}
        dates = {name: str(source["date"]) for name, source in sources.items()}
        what = "; ".join(str(source["what"]) for source in sources.values())
        return Snapshot(dates, what, dict(raw["models"]), left_out)
    except (AttributeError, OSError, LookupError, RecursionError, TypeError, ValueError):
        return Snapshot({}, "", {})  # a DecodeError is a ValueError


def _entry(model: str) -> dict[str, Any] | None:
    entry = snapshot().models.get(model)
    return entry if isinstance(entry, dict) else None


def _tokens(value: object) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_TOKENS
    return value if good and isinstance(value, int) else 0


# The snapshot's


def parse_price(entry: dict[str, Any], source: str = "") -> Price | None:
    """Return the price in an entry, or None if anything about it isn't plausible."""
    tiers = entry.get("tiers", [])
    if entry.get("free") is True:
        is_plain = not tiers and all(entry.get(name) == "0" for name in _RATES)
        return Price(Rates(0, 0, 0, 0), source=source) if is_plain else None
    base = _rates(entry)
    if base is None or not isinstance(tiers, list):
        return None
    found: list[Tier] = []
    for tier in tiers:
        rates = _rates(tier) if isinstance(tier, dict) else None
        above = _tokens(tier.get("above")) if isinstance(tier, dict) else 0
        if rates is None or above <= (found[-1].above if found else 0):
            return None
        if rates.input < base.input or rates.output < base.output:
            return None
        found.append(Tier(above, rates))
    return Price(base, tuple(found), source)


def _rates(entry: dict[str, Any]) -> Rates | None:
    """Return an entry's four rates, or None.

    A cache is read for no more than the input costs, and written for no less.
    """
    amounts = [_parse_amount(entry.get(name)) for name in _RATES]
    if None in amounts:
        return None
    rates = Rates(*(amount or 0 for amount in amounts))
    plausible = (
        _MIN_RATE <= rates.input <= _MAX_INPUT_RATE,
        rates.input <= rates.output <= _MAX_OUTPUT_RATE,
        rates.input <= 200 * rates.cache_read <= 200 * rates.input,
        rates.input <= rates.cache_write <= 4 * rates.input,
    )
    return rates if all(plausible) else None


def _parse_amount(text: object) -> int | None:
    """Read dollars per million tokens as nano-dollars, or return None."""
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        return None
    return int(Decimal(text) * NANO)


# The user's own


def _configured_price(price: PriceSettings) -> Price:
    rates = []
    for name in _RATES:
        text: str = getattr(price, name)
        if name.startswith("cache"):
            text = text or price.input
        most = _MAX_OUTPUT_RATE if name == "output" else _MAX_INPUT_RATE
        rates.append(_configured_amount(text, name, most))
    return Price(Rates(*rates), source=CONFIGURED)


def _configured_amount(text: str, name: str, most: int) -> int:
    amount = _parse_amount(text.strip().removeprefix("$"))
    if amount is None or amount > most:
        raise ConfigError(
            f"The price {name} = {text!r} is not an amount of US dollars per million tokens.",
            f'Write it like {name} = "0.25", from 0 to {most // NANO}.',
        )
    if 0 < amount < _MIN_RATE:
        raise ConfigError(
            f"The price {name} = {text!r} is too low for a million tokens.",
            "It looks like the price of one token: multiply it by 1,000,000.",
        )
    return amount


_DATE = re.compile(r"\b20\d\d[-_]?[01]\d[-_]?[0-3]\d\b|\b[01]\d-20\d\d\b")
_UNTELLING = re.compile(
    r"\d{3,4}|v\d+|latest|preview|exp|beta|free|gguf|instruct|it|chat|hf|mlx|ud|xs|xxs|xl|[kmsl0]"
    r"|i?q\d\w*|[bf]p?\d{1,2}|int\d|\d+bit|awq|gptq|default|us|eu|apac|global|anthropic|amazon|meta"
)
"""Parts of names that leave a model the same: stamps, ways to keep its weights, places, makers."""


def is_same_model(asked: str, named: str) -> bool:
    """Whether a provider's name of a model can mean the one that was asked for.

    Stamps ("gpt-5-nano-2025-08-07"), prefixes, folders and endings may differ. True where no name
    came, and for models that choose others by themselves (Azure's are named by their customers).
    """
    if not named or re.match(r"azure/|baton/|.*\bauto\b", asked.lower()):
        return True
    if asked.startswith("huggingface/"):  # ":novita" is who of the router's providers answers
        asked = asked.partition(":")[0]
    one, other = _telling_parts(asked), _telling_parts(named)
    return one == other or ("latest" in asked and one <= other)


def _telling_parts(name: str) -> Counter[str]:
    """Return the parts of a model's name by which it differs from others."""
    parts = re.split(
        r"[^a-z0-9]+", _DATE.sub("", name.lower().replace("\\", "/").rpartition("/")[2])
    )
    return Counter(part for part in parts if part and not _UNTELLING.fullmatch(part))
