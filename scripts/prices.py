"""Writes workers/cloud/prices.json: what the providers' models cost, from litellm's own list.

    scripts/prices                   from the litellm that is installed, dated today
    scripts/prices --date 2026-11-20

Only what answers text with text is taken, and only where all rates are plausible; everything else
stays unknown to Baton, which then asks for a price. Rates are US dollars per million tokens. What
is charged for a service tier that was not asked for (batches, flex, priority) is left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from decimal import Decimal
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import price_table

LISTED_AS = {"cohere_chat": "cohere", "vertex_ai-language-models": "vertex_ai"}
"""Baton's names of providers that litellm's list calls otherwise."""

RESOLD = {"perplexity", "vercel_ai_gateway"}
"""Providers that pass requests on to others: what an answer costs depends on who gives it, and the
list has one price for all of them, without the tiers of some."""

LIST = "litellm/model_prices_and_context_window_backup.json"
OTHER_WORK = re.compile(
    r"^ft:|audio|search|deep-research|computer-use|container|tts|lyria|omni|image|realtime|"
    r"streaming|live|robotics|multi-agent|guard|^(fireworks_ai/fireworks|together)-ai-"
)
"""Models that are charged for more than tokens of text, or don't chat."""

TIER = re.compile(r"input_cost_per_token_above_([0-9]+)k_tokens")
WRITES = ("cache_creation_input_token_cost", "cache_creation_input_token_cost_above_1hr")


def main() -> None:
    """Write the file, and say what was left out."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--date", default=str(datetime.date.today()), help="of the list")
    date = str(datetime.date.fromisoformat(options.parse_args().date))
    raw = json.loads(Path(str(distribution("litellm").locate_file(LIST))).read_text("utf-8"))
    models = {name: entry(own) for name, own in sorted(provider_models(raw).items())}
    known = {name: own for name, own in models.items() if own and price_table.parse_price(own)}
    for name in sorted(set(models) - set(known)):
        print(f"left out, no plausible price: {name}")
    source = f"litellm {version('litellm')}, {Path(LIST).name}"
    head = {"snapshot": date, "source": source, "unit": "US dollars per million tokens"}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(own)}" for name, own in known.items())
    text = json.dumps(head)[:-1] + ', "models": {\n' + lines + "\n}}\n"
    price_table.PRICES_FILE.write_text(text, "utf-8")
    count = {provider: sum(n.startswith(f"{provider}/") for n in known) for provider in PROVIDERS}
    print(f"{len(known)} models of {date}: {count}")


def provider_models(raw: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the providers' models by Baton's names; one that is listed twice by its fuller one."""
    found: dict[str, dict[str, Any]] = {}
    for name, own in raw.items():
        listed = own.get("litellm_provider")
        provider = LISTED_AS.get(listed, listed)
        if provider not in PROVIDERS or own.get("mode") not in ("chat", "responses"):
            continue
        if not PROVIDERS[provider].base_url:  # each customer has prices of an own contract
            continue
        if provider in RESOLD:
            continue
        outputs = set(own.get("supported_output_modalities") or ["text"])
        if OTHER_WORK.search(name) or not outputs <= {"text", "image"} or "text" not in outputs:
            continue
        full = f"{provider}/{name.removeprefix(f'{provider}/')}"
        if full not in found or name == full:
            found[full] = own
    return found


def entry(own: dict[str, Any]) -> dict[str, Any] | None:
    """Return what Baton keeps of one model, or None if it has no price."""
    base = rates(own, "")
    if base is None:
        return None
    kept: dict[str, Any] = dict(base)
    above = sorted(int(found[1]) for key in own if (found := TIER.fullmatch(key)))
    tiers = [(size, rates(own, f"_above_{size}k_tokens", base)) for size in above]
    if tiers:
        kept["tiers"] = [{"above": size * 1000, **(tier or {})} for size, tier in tiers]
    for name, key in (("max_input", "max_input_tokens"), ("max_output", "max_output_tokens")):
        if isinstance(own.get(key), int):
            kept[name] = own[key]
    if own.get("supports_reasoning"):
        kept["reasoning"] = True
    if own.get("deprecation_date"):
        kept["until"] = own["deprecation_date"]
    if own["mode"] == "responses":
        kept["responses"] = True
    return kept


def rates(
    own: dict[str, Any], suffix: str, base: dict[str, str] | None = None
) -> dict[str, str] | None:
    """Return one tier's rates; where none is given for the cache, the dearest that it can be."""
    plain = dollars(own.get(f"input_cost_per_token{suffix}"))
    answer = dollars(own.get(f"output_cost_per_token{suffix}"))
    thought = dollars(own.get(f"output_cost_per_reasoning_token{suffix}"))
    if not plain or not answer:
        return None
    read = dollars(own.get(f"cache_read_input_token_cost{suffix}")) or plain
    written = [dollars(own.get(f"{key}{suffix}")) or plain for key in WRITES]
    if base is not None:  # written at the same ratio as below the tier
        written.append(plain * Decimal(base["cache_write"]) / Decimal(base["input"]))
    amounts = {
        "input": plain,
        "output": max(answer, thought or answer),
        "cache_read": read,
        "cache_write": max(written),
    }
    return {name: text(amount) for name, amount in amounts.items()}


def dollars(per_token: Any) -> Decimal | None:
    """Return a price per token as one per million, without the noise of binary fractions."""
    if isinstance(per_token, bool) or not isinstance(per_token, int | float):
        return None
    return (Decimal(str(per_token)) * 1_000_000).quantize(Decimal("0.000001"))


def text(amount: Decimal) -> str:
    """Write an amount without an exponent and without needless zeros."""
    return f"{amount:.6f}".rstrip("0").rstrip(".")


if __name__ == "__main__":
    main()
