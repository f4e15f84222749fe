"""What scripts/prices makes of two lists: the dearer rates, and a reason for what it leaves out."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from baton.workers.cloud.price_table import parse_price

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import prices as script

SOURCES = {"litellm": {"date": "2026-11-21"}, "models.dev": {"date": "2026-07-02"}}


def litellm(provider: str = "groq", **more: Any) -> dict[str, Any]:
    chat = {"litellm_provider": provider, "mode": "chat"}
    return chat | {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06} | more


def checkout(folder: Path, **files: str) -> Path:
    """Make a checkout with these files; "__" stands for "/" in their names."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


def merged(raw: dict[str, Any], theirs: dict[str, script.ListedModel], name: str) -> Any:
    """Return the entry of a model, or why there is none."""
    lists = {"litellm": script.litellm_models(raw), "models.dev": theirs}
    listed = {source: models[name] for source, models in lists.items() if name in models}
    return script.reason_against(name, listed, SOURCES) or script.entry(name, listed)


def their(cost: str, more: str = "") -> script.ListedModel:
    import tomllib

    own = tomllib.loads(f"{more}\n[cost]\n{cost}", parse_float=Decimal)
    return script.models_dev_model(own)


def rates(entry: dict[str, Any]) -> list[str]:
    return [entry[name] for name in script.RATES]


def test_the_dearer_rate_is_taken_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    raw = {"groq/m": litellm(cache_read_input_token_cost=5e-07)}
    both = merged(raw, {"groq/m": their("input = 1.5\noutput = 1.0\ncache_read = 0.1")}, "groq/m")
    assert rates(both) == ["1.5", "2", "0.5", "1.5"]
    assert both["models.dev"] == "input"
    assert "groq/m: input 1, 1.5; output 2, 1; cache_read 0.5, 0.1" in capsys.readouterr().out
    same = merged(raw, {"groq/m": their("input = 1\noutput = 2")}, "groq/m")
    assert (rates(same), "models.dev" in same) == (["1", "2", "0.5", "1"], False)
    assert capsys.readouterr().out == ""


def test_a_cache_rate_that_one_list_lacks_is_the_other_ones() -> None:
    entry = merged(
        {"groq/m": litellm()},
        {"groq/m": their("input = 1\noutput = 2\ncache_read = 0.2")},
        "groq/m",
    )
    assert (rates(entry), entry["models.dev"]) == (["1", "2", "0.2", "1"], "cache_read")
    none = merged(
        {"groq/m": litellm()}, {"groq/m": their("input = 1\noutput = 2\ncache_read = 0")}, "groq/m"
    )
    assert rates(none) == ["1", "2", "1", "1"], "a cache's 0 says that there is no cache"


def test_the_dearer_rate_is_taken_above_each_threshold() -> None:
    own = litellm(
        input_cost_per_token_above_200k_tokens=2e-06, output_cost_per_token_above_200k_tokens=3e-06
    )
    tier = "[[cost.tiers]]\ntier = { size = 100_000 }\ninput = 1\noutput = 9"
    entry = merged({"groq/m": own}, {"groq/m": their(f"input = 1\noutput = 2\n{tier}")}, "groq/m")
    assert [(t["above"], t["input"], t["output"]) for t in entry["tiers"]] == [
        (100_000, "1", "9"),
        (200_000, "2", "9"),
    ]


def test_thoughts_are_priced_as_answers_where_they_cost_more() -> None:
    entry = merged(
        {"groq/m": litellm(output_cost_per_reasoning_token=7e-06)},
        {"groq/m": their("input = 1\noutput = 2\nreasoning = 8")},
        "groq/m",
    )
    assert entry["output"] == "8"


@pytest.mark.parametrize(
    ("name", "raw", "theirs", "found"),
    [
        ("zai/a", litellm("zai"), None, "1"),
        ("zai/a", None, their("input = 3\noutput = 4"), "3"),
        ("zai/a", litellm("zai", input_cost_per_token=0, output_cost_per_token=0), None, "free"),
        ("zai/a", None, their("input = 0\noutput = 0"), "free"),
        ("openrouter/a/b:free", None, their("input = 0\noutput = 0"), "0"),
        ("openrouter/a/b-free", None, their("input = 0\noutput = 0"), "free"),
        ("openai/a", None, their("input = 3\noutput = 4"), "older list"),
        ("groq/a", None, their("input = 3\noutput = 4", 'status = "deprecated"'), "withdrawn"),
        ("vertex_ai/grok", litellm("vertex_ai"), None, "only Gemini"),
        ("vertex_ai/gemini-x", litellm("vertex_ai"), None, "1"),
    ],
)
def test_what_one_list_has_alone(name: str, raw: Any, theirs: Any, found: str) -> None:
    got = merged({name: raw} if raw else {}, {name: theirs} if theirs else {}, name)
    assert found in (got if isinstance(got, str) else got["input"])


def test_what_both_call_free_is_free_and_what_one_does_is_not() -> None:
    raw = {"zai/a": litellm("zai", input_cost_per_token=0, output_cost_per_token=0.0)}
    free = merged(raw, {"zai/a": their("input = 0\noutput = 0\ncache_write = 0")}, "zai/a")
    assert (rates(free), free["free"]) == (["0"] * 4, True)
    assert parse_price(free) is not None
    dear = merged(raw, {"zai/a": their("input = 2\noutput = 3")}, "zai/a")
    assert (rates(dear), "free" in dear) == (["2", "3", "2", "2"], False)
    none = merged(raw, {"zai/a": their("")}, "zai/a")
    assert none == script.ONE_SAYS_FREE
    unknown = merged({}, {"zai/a": their("")}, "zai/a")
    assert parse_price(unknown) is None


def test_fireworks_short_names_are_listed_as_they_are_asked() -> None:
    place = "fireworks_ai/accounts/fireworks"
    raw = {
        "fireworks_ai/one": litellm("fireworks_ai", input_cost_per_token=3e-06),
        f"{place}/models/one": litellm("fireworks_ai"),
        "fireworks_ai/two-us": litellm("fireworks_ai"),
        f"{place}/routers/two-us": litellm("fireworks_ai"),
        "fireworks_ai/three": litellm("fireworks_ai"),
    }
    found = script.litellm_models(raw)
    assert list(found) == [
        f"{place}/models/one",
        f"{place}/routers/two-us",
        f"{place}/models/three",
    ]
    assert found[f"{place}/models/one"].stated(0)["input"] == 3


def test_a_checkout_is_read_with_what_its_files_inherit(tmp_path: Path) -> None:
    folder = checkout(
        tmp_path,
        models__google__x="reasoning = true\n[limit]\ncontext = 100\noutput = 10",
        **{
            "providers__google__models__x": 'base_model = "google/x"\n[cost]\ninput = 1\noutput = 2'
            "\n[limit]\noutput = 20",
            "providers__google__models__see": "[cost]\ninput = 1\noutput = 2\n"
            '[modalities]\noutput = ["image"]',
            "providers__openrouter__models__a__b:free": "[cost]\ninput = 0\noutput = 0",
            "providers__azure__models__y": "[cost]\ninput = 1\noutput = 2",
            "providers__unknown__models__y": "[cost]\ninput = 1\noutput = 2",
        },
    )
    found = script.models_dev_models(folder)
    assert list(found) == ["gemini/x", "openrouter/a/b:free"]
    assert found["gemini/x"].facts == {"max_input": 100, "max_output": 20, "reasoning": True}


async def test_what_would_not_be_sent_is_found() -> None:
    asked = ["groq/openai/gpt-oss-20b", "fireworks_ai/glm-5p2", "vertex_ai/xai/grok-4.3"]
    found = dict(await script.refused_requests(asked))
    assert list(found) == asked[1:]
    assert "another model" in found["fireworks_ai/glm-5p2"]
