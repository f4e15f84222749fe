"""Writes workers/cloud/prices.json: what the providers' models cost, from two public lists.

    scripts/prices                                 from the installed litellm alone, dated today
    scripts/prices --models-dev ~/models.dev       and from a checkout of models.dev (MIT)
    scripts/prices --date 2026-11-20

Where the lists disagree on a rate the dearer one is taken, and both are printed. Only what answers
text with text is taken, only where all rates are plausible, and only what the gateway would send.
What is left out stays unknown to Baton, which then asks for a price; the file says why. Rates are
US dollars per million tokens. What is charged for a service tier that was not asked for (batches,
flex, priority) is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

from baton.core.messages import Message, Role, max_input_tokens
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import price_table
from baton.workers.cloud.child.cloud_call import CloudCall
from baton.workers.cloud.child.request_guard import UnfitRequest, check_request, check_url
from baton.workers.cloud.child.request_writer import RequestWriter
from baton.workers.cloud.provider_models import why_never_asked

LITELLM, MODELS_DEV = "litellm", "models.dev"

LISTED_AS = {
    "bedrock_converse": "bedrock",
    "cohere_chat": "cohere",
    "vertex_ai-language-models": "vertex_ai",
}
"""Baton's names of providers that litellm's list calls otherwise."""

RESOLD = frozenset({"huggingface", "perplexity", "vercel_ai_gateway"})
"""Providers that pass requests on to others: what an answer costs depends on who gives it, and the
lists have one price for all of them, without the tiers of some. OpenRouter gets a highest price."""

MODELS_DEV_AS = {
    "amazon-bedrock": "bedrock",
    "fireworks-ai": "fireworks_ai",
    "google": "gemini",
    "google-vertex": "vertex_ai",
    "moonshotai": "moonshot",
    "novita-ai": "novita",
    "togetherai": "together_ai",
    "vercel": "vercel_ai_gateway",
}
"""Baton's names of providers that models.dev calls otherwise."""

FILLED = frozenset({"cerebras", "cohere", "groq", "openrouter", "zai"})
"""Providers of whom litellm lists few models, so that models.dev's are taken although it is older.
A model of another one that litellm's newer list lacks is most likely withdrawn."""

LIST = "litellm/model_prices_and_context_window_backup.json"
OTHER_WORK = re.compile(
    r"^ft:|audio|search|deep-research|computer-use|container|tts|lyria|omni|image|realtime|"
    r"streaming|live|robotics|multi-agent|guard|content-safety|embed|whisper|sonar|:online|"
    r"^(fireworks_ai/fireworks|together)-ai-"
)
"""Models that are charged for more than tokens of text, or don't chat."""

MARKED_FREE = re.compile(r":free$|^openrouter/openrouter/free$")
"""Names by which a provider itself promises that nothing is charged."""

TIER = re.compile(r"input_cost_per_token_above_([0-9]+)k_tokens")
WRITES = ("cache_creation_input_token_cost", "cache_creation_input_token_cost_above_1hr")
RATES = ("input", "output", "cache_read", "cache_write")

NO_PRICE = "no list has a plausible price for it"
ONE_SAYS_FREE = "a list says that it is free, and no other one does"
IS_OLD = "only models.dev's older list has it, so it may be withdrawn"
IS_WITHDRAWN = "it is withdrawn"


@dataclass
class ListedModel:
    """One model in one list: dollars per million tokens as far as they are stated, by tier.

    Tier 0 holds below the first threshold. `facts` stand in the file as they are.
    """

    tiers: dict[int, dict[str, Decimal]]
    facts: dict[str, Any] = field(default_factory=dict)
    is_withdrawn: bool = False

    def stated(self, above: int) -> dict[str, Decimal]:
        """Return the rates of a prompt longer than that."""
        return self.tiers[max(size for size in self.tiers if size <= above)]

    @property
    def is_free(self) -> bool:
        """Whether the list says that nothing is charged: it states 0, and no other amount."""
        is_stated = {"input", "output"} <= self.tiers[0].keys()
        return is_stated and not any(any(rates.values()) for rates in self.tiers.values())


def main() -> None:
    """Write the file, and print what was left out and where the lists disagree."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--date", default=str(datetime.date.today()), help="of litellm's list")
    options.add_argument("--models-dev", type=Path, help="a checkout of models.dev")
    chosen = options.parse_args()
    date = str(datetime.date.fromisoformat(chosen.date))
    raw = json.loads(Path(str(distribution("litellm").locate_file(LIST))).read_text("utf-8"))
    lists = {LITELLM: litellm_models(raw)}
    sources = {LITELLM: {"date": date, "what": f"litellm {version('litellm')}, {Path(LIST).name}"}}
    if chosen.models_dev is not None:
        lists[MODELS_DEV] = models_dev_models(chosen.models_dev)
        sources[MODELS_DEV] = checkout_of(chosen.models_dev)
    left_out: dict[str, list[str]] = {}
    known: dict[str, dict[str, Any]] = {}
    for name in sorted({name for models in lists.values() for name in models}):
        listed = {source: models[name] for source, models in lists.items() if name in models}
        if why := reason_against(name, listed, sources):
            left_out.setdefault(why, []).append(name)
            continue
        own = entry(name, listed)
        if price_table.parse_price(own) is None:
            left_out.setdefault(NO_PRICE, []).append(name)
        else:
            known[name] = own
    for name, why in asyncio.run(refused_requests(known)):
        left_out.setdefault(f"its request wouldn't be sent, since {why}", []).append(name)
        del known[name]
    for why, names in left_out.items():
        print(f"left out, {why}: {', '.join(names)}")
    head = {"sources": sources, "unit": "US dollars per million tokens", "left_out": left_out}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(own)}" for name, own in known.items())
    text = json.dumps(head)[:-1] + ', "models": {\n' + lines + "\n}}\n"
    price_table.PRICES_FILE.write_text(text, "utf-8")
    count = {provider: sum(n.startswith(f"{provider}/") for n in known) for provider in PROVIDERS}
    print(f"{len(known)} models: {count}")


# litellm's list


def litellm_models(raw: dict[str, Any]) -> dict[str, ListedModel]:
    """Return the providers' models by the names that are asked.

    Of one that is listed twice by that name the fuller counts, and of a short name with it the
    dearer rates.
    """
    found: dict[str, dict[str, ListedModel]] = {}
    for name, own in raw.items():
        listed = own.get("litellm_provider")
        provider = LISTED_AS.get(listed, listed)
        if not has_list_prices(provider) or own.get("mode") not in ("chat", "responses"):
            continue
        outputs = set(own.get("supported_output_modalities") or ["text"])
        if OTHER_WORK.search(name) or not outputs <= {"text", "image"} or "text" not in outputs:
            continue
        bare = name.removeprefix(f"{listed}/").removeprefix(f"{provider}/")
        listed_as = f"{provider}/{bare}"
        alike = found.setdefault(asked_name(listed_as, raw), {})
        if listed_as not in alike or name == listed_as:
            alike[listed_as] = litellm_model(own)
    return {full: reduce(dearest, alike.values()) for full, alike in found.items()}


def asked_name(full: str, raw: Mapping[str, Any]) -> str:
    """Return the name that is really asked: Fireworks' short ones leave its folders out."""
    provider, _, name = full.partition("/")
    if provider != "fireworks_ai" or "/" in name:
        return full
    places = [f"{provider}/accounts/fireworks/{kind}/{name}" for kind in ("models", "routers")]
    return next((place for place in places if place in raw), places[0])


def litellm_model(own: dict[str, Any]) -> ListedModel:
    """Return what litellm's list says of one model."""
    tiers = {0: litellm_rates(own, "")}
    for size in sorted(int(found[1]) for key in own if (found := TIER.fullmatch(key))):
        tiers[size * 1000] = litellm_rates(own, f"_above_{size}k_tokens")
    facts: dict[str, Any] = {
        name: own[key]
        for name, key in (("max_input", "max_input_tokens"), ("max_output", "max_output_tokens"))
        if isinstance(own.get(key), int)
    }
    facts |= {"reasoning": True} if own.get("supports_reasoning") else {}
    facts |= {"until": own["deprecation_date"]} if own.get("deprecation_date") else {}
    facts["schema"] = bool(own.get("supports_response_schema"))
    return ListedModel(tiers, facts)


def litellm_rates(own: dict[str, Any], suffix: str) -> dict[str, Decimal]:
    """Return the rates of one tier as far as they are stated."""
    stated = {
        "input": [own.get(f"input_cost_per_token{suffix}")],
        "output": [
            own.get(f"{key}{suffix}")
            for key in ("output_cost_per_token", "output_cost_per_reasoning_token")
        ],
        "cache_read": [own.get(f"cache_read_input_token_cost{suffix}")],
        "cache_write": [own.get(f"{key}{suffix}") for key in WRITES],
    }
    return {
        name: max(Decimal(str(amount)) * 1_000_000 for amount in amounts)
        for name, given in stated.items()
        if (amounts := [amount for amount in given if is_amount(amount)])
    }


def is_amount(given: object) -> bool:
    """Whether something read is a number."""
    return isinstance(given, int | float | Decimal) and not isinstance(given, bool)


# models.dev


def models_dev_models(checkout: Path) -> dict[str, ListedModel]:
    """Return the models of a checkout of models.dev that chat, by Baton's names.

    A file leaves to its `base_model` what it doesn't say itself.
    """
    found: dict[str, ListedModel] = {}
    for folder in sorted((checkout / "providers").iterdir()):
        provider = MODELS_DEV_AS.get(folder.name, folder.name)
        if not has_list_prices(provider):
            continue
        models = folder / "models"
        for file in sorted(models.rglob("*.toml")):
            own = read_toml(file)
            base = checkout / "models" / f"{own.get('base_model', '')}.toml"
            if base.is_file():
                own = merged(read_toml(base), own)
            name = file.relative_to(models).as_posix().removesuffix(".toml")
            outputs = own.get("modalities", {}).get("output", ["text"])
            if outputs == ["text"] and not OTHER_WORK.search(name):
                found[f"{provider}/{name}"] = models_dev_model(own)
    return found


def merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a file's content over that of its base, table by table."""
    tables = {k: base[k] | v for k, v in own.items() if isinstance(v, dict) and k in base}
    return base | own | tables


def models_dev_model(own: dict[str, Any]) -> ListedModel:
    """Return what models.dev says of one model."""
    cost = own.get("cost", {})
    tiers = {0: models_dev_rates(cost)}
    for tier in cost.get("tiers", []):
        tiers[tier["tier"]["size"]] = models_dev_rates(tier)
    limit = own.get("limit", {})
    most = {
        "max_input": limit.get("input", limit.get("context")),
        "max_output": limit.get("output"),
    }
    facts: dict[str, Any] = {name: size for name, size in most.items() if size}
    facts |= {"reasoning": True} if own.get("reasoning") else {}
    facts["schema"] = bool(own.get("structured_output"))
    return ListedModel(tiers, facts, own.get("status") == "deprecated")


def models_dev_rates(cost: dict[str, Any]) -> dict[str, Decimal]:
    """Return one tier's rates as far as they are stated: a cache's 0 says that none is kept."""
    rates = {name: cost[name] for name in RATES if is_amount(cost.get(name))}
    if "output" in rates:
        rates["output"] = max(rates["output"], cost.get("reasoning", 0))
    return {n: Decimal(rate) for n, rate in rates.items() if rate or n in ("input", "output")}


def read_toml(file: Path) -> dict[str, Any]:
    """Read a file of models.dev, its amounts exactly."""
    return tomllib.loads(file.read_text("utf-8"), parse_float=Decimal)


def checkout_of(folder: Path) -> dict[str, str]:
    """Return of which day a checkout is, and its commit."""
    done = subprocess.run(
        ["git", "-C", str(folder), "log", "-1", "--format=%cs %h"],
        capture_output=True,
        text=True,
        check=True,
    )
    date, commit = done.stdout.split()
    return {"date": date, "what": f"models.dev, {commit}"}


# Both


def has_list_prices(provider: str | None) -> bool:
    """Whether a provider is asked, and sells to all at one price, which Azure doesn't."""
    own = PROVIDERS.get(provider or "")
    return own is not None and bool(own.base_url) and own.name not in RESOLD


def dearest(one: ListedModel, other: ListedModel) -> ListedModel:
    """Return the dearer of each rate of two entries for the same model."""
    return ListedModel(
        {size: dearer_rates([one, other], size) for size in {*one.tiers, *other.tiers}},
        other.facts | one.facts,
    )


def dearer_rates(listed: Iterable[ListedModel], above: int) -> dict[str, Decimal]:
    """Return the dearest of each rate that is stated for prompts longer than that."""
    stated = [model.stated(above) for model in listed]
    return {
        name: max(amounts)
        for name in RATES
        if (amounts := [rates[name] for rates in stated if name in rates])
    }


def reason_against(
    name: str, listed: Mapping[str, ListedModel], sources: Mapping[str, Mapping[str, str]]
) -> str:
    """Return why a model isn't taken, or ""."""
    provider = name.partition("/")[0]
    only = next(iter(listed)) if len(listed) == 1 else ""
    if reason := why_never_asked(name):
        return reason[0]
    if only == MODELS_DEV and listed[only].is_withdrawn:
        return IS_WITHDRAWN
    is_older = only == MODELS_DEV and sources[MODELS_DEV]["date"] < sources[LITELLM]["date"]
    if is_older and provider not in FILLED:
        return IS_OLD
    stating = [model for model in listed.values() if model.stated(0)]
    if len(stating) == 1 and stating[0].is_free and not MARKED_FREE.search(name):
        return ONE_SAYS_FREE
    return ""


def entry(name: str, listed: Mapping[str, ListedModel]) -> dict[str, Any]:
    """Return what Baton keeps of one model: the dearest rates, and which are models.dev's."""
    sizes = sorted({size for model in listed.values() for size in model.tiers})
    by_size = {size: dearer_rates(listed.values(), size) for size in sizes}
    base = whole_rates(by_size[0])
    kept: dict[str, Any] = {n: written(amount) for n, amount in base.items()}
    if all(model.is_free for model in listed.values() if model.stated(0)):
        kept["free"] = True
    elif tiers := [
        {"above": size} | {n: written(r) for n, r in whole_rates(by_size[size], base).items()}
        for size in sizes[1:]
    ]:
        kept["tiers"] = tiers
    for model in listed.values():
        kept |= {fact: value for fact, value in model.facts.items() if fact not in kept}
    kept = {fact: value for fact, value in kept.items() if value is not False}
    if list(listed) == [MODELS_DEV]:
        kept[MODELS_DEV] = "all"
    elif MODELS_DEV in listed:
        print_disagreement(name, listed)
        if theirs := dearer_there(listed[MODELS_DEV], listed[LITELLM]):
            kept[MODELS_DEV] = " ".join(theirs)
    return kept


def print_disagreement(name: str, listed: Mapping[str, ListedModel]) -> None:
    """Print the rates that both lists state and that differ."""
    ours, theirs = listed[LITELLM], listed[MODELS_DEV]
    for size in sorted({*ours.tiers, *theirs.tiers}):
        one, other = ours.stated(size), theirs.stated(size)
        differ = [
            n for n in RATES if n in one and n in other and written(one[n]) != written(other[n])
        ]
        if differ:
            amounts = (f"{n} {written(one[n])}, {written(other[n])}" for n in differ)
            above = f" above {size:,} tokens" if size else ""
            print(f"litellm and models.dev disagree: {name}{above}: {'; '.join(amounts)}")


def dearer_there(theirs: ListedModel, ours: ListedModel) -> list[str]:
    """Return the rates that are dearer in one list than in the other, or not stated there."""
    sizes = {*theirs.tiers, *ours.tiers}
    pairs = [(theirs.stated(size), ours.stated(size)) for size in sizes]
    return [n for n in RATES if any(there.get(n, -1) > here.get(n, -1) for there, here in pairs)]


def whole_rates(
    stated: Mapping[str, Decimal], base: Mapping[str, Decimal] | None = None
) -> dict[str, Decimal]:
    """Return all four rates; a cache's that isn't stated is the dearest that it can be."""
    plain, answer = stated.get("input", Decimal(-1)), stated.get("output", Decimal(-1))
    written = max(plain, stated.get("cache_write", plain))
    if base is not None and base["input"] > 0:  # written at the same ratio as below the tier
        written = max(written, plain * base["cache_write"] / base["input"])
    read = stated.get("cache_read", Decimal(0)) or plain
    return {
        "input": plain,
        "output": answer,
        "cache_read": min(read, plain),
        "cache_write": written,
    }


def written(amount: Decimal) -> str:
    """Write an amount without an exponent, needless zeros and the noise of binary fractions."""
    return f"{amount:.6f}".rstrip("0").rstrip(".")


# What can be asked


async def refused_requests(models: Iterable[str]) -> list[tuple[str, str]]:
    """Return the models whose requests the gateway would refuse to send, and why."""
    writer = RequestWriter("low")
    said = [Message(Role.SYSTEM, "You are brief."), Message(Role.USER, "What is a hold?")]
    refused = []
    for name in models:
        provider, _, model = name.partition("/")
        base_url = PROVIDERS[provider].base_url
        call = CloudCall(
            id=1,
            who=provider,
            provider=provider,
            model=model,
            base_url=base_url,
            variable="",
            needs_key=True,
            through_library=True,
            messages=[{"role": m.role.value, "content": m.text} for m in said],
            cap=4096,
            bound=max_input_tokens(said),
            context=0,
            connect=5,
            first=5,
            temperature=None,
            seed=None,
            announce=lambda host, body: None,
        )
        try:
            request = await writer.write(call)
            check_url(request.url, base_url)
            check_request(
                request.body,
                call.dialect,
                call.model,
                call.cap,
                call.bound,
                must_not_store=call.is_openais,
            )
        except UnfitRequest as error:
            refused.append((name, str(error)))
        except Exception as error:  # litellm raises any kind
            refused.append((name, f"litellm can't write it ({type(error).__name__})"))
    return refused


if __name__ == "__main__":
    main()
