"""Names of models as people write them: the right one is named, and nothing is guessed silently."""

from __future__ import annotations

import tomllib
from functools import cache

import pytest

from baton.core.errors import ConfigError
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud import price_table, provider_models
from baton.workers.cloud.price_table import is_over, snapshot
from baton.workers.cloud.provider_models import (
    NAMES_FILE,
    full_names,
    known_provider,
    provider_model,
    provider_refusals,
    refuse_unasked,
    why_unusable,
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("google/gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("google-vertex/gemini-3.5-flash", "vertex_ai/gemini-3.5-flash"),
        ("vertex/gemini-3.5-flash", "vertex_ai/gemini-3.5-flash"),
        ("moonshotai/kimi-k2.6", "moonshot/kimi-k2.6"),
        ("vercel/zai/glm-4.6", "vercel_ai_gateway/zai/glm-4.6"),
        ("hf/openai/gpt-oss-20b:novita", "huggingface/openai/gpt-oss-20b:novita"),
        ("aws/openai.gpt-oss-20b-1:0", "bedrock/openai.gpt-oss-20b-1:0"),
        ("x-ai/grok-4.3", "xai/grok-4.3"),
        ("x.ai/grok-4-3", "xai/grok-4.3"),
        ("z-ai/glm-4.7", "zai/glm-4.7"),
        ("zai-org/GLM-4.7", "zai/glm-4.7"),
        ("togetherai/openai/gpt-oss-120b", "together_ai/openai/gpt-oss-120b"),
        ("Together/openai/gpt-oss-120b", "together_ai/openai/gpt-oss-120b"),
        ("fireworks/glm-5p3", "fireworks_ai/accounts/fireworks/models/glm-5p3"),
        ("fireworks-ai/glm-5p3", "fireworks_ai/accounts/fireworks/models/glm-5p3"),
        ("novita-ai/deepseek/deepseek-v4-pro", "novita/deepseek/deepseek-v4-pro"),
        ("OpenAI/gpt-5-mini", "openai/gpt-5-mini"),
        ("openai/GPT-5-Mini", "openai/gpt-5-mini"),
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("claude/claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("deepseek-ai/DeepSeek-V3.1", "novita/deepseek/deepseek-v3.1"),
        ("qwen/qwen3-32b", "groq/qwen/qwen3-32b"),
        ("meta-llama/llama-3.3-70b-instruct", "openrouter/meta-llama/llama-3.3-70b-instruct"),
        ("google/not-there", "gemini/not-there"),
        ("fireworks/deepseek-v4-flash", "fireworks_ai/accounts/fireworks/models/deepseek-v4-flash"),
        ("togethercomputer/llama", "together_ai/llama"),
        ("openai/", "`baton budget prices openai`"),
    ],
)
def test_another_name_is_put_right_and_not_asked(name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as raised:
        provider_model(name)
    assert "Nothing was sent" in raised.value.message
    assert meant in raised.value.hint


@pytest.mark.parametrize("name", ["google", "kimi", "together", "vertex", "claude"])
def test_a_provider_has_an_alias(name: str) -> None:
    assert known_provider(name) in PROVIDERS


def test_the_aliases_say_something_and_hide_no_provider() -> None:
    known = tomllib.loads(NAMES_FILE.read_text("utf-8"))["aliases"]
    aliases = [alias for names in known.values() for alias in names.split()]
    assert all(alias == alias.lower() and alias.isalnum() for alias in aliases)
    assert len({*aliases}) == len(aliases)
    for name in (*PROVIDERS, *provider_refusals()):
        assert known_provider(name) == name
        assert known_provider(name.replace("_", "-").upper()) == name


@pytest.mark.parametrize("name", provider_refusals())
def test_a_refused_provider_says_why(name: str) -> None:
    with pytest.raises(ConfigError, match=f"doesn't ask the provider '{name}': "):
        provider_model(f"{name}/some/model")
    [(_, why)] = [(word, why) for word, why in why_unusable([name]).items() if word == name]
    assert f"doesn't ask the provider '{name}': " in why


def test_a_refused_provider_names_others_that_sell_its_model() -> None:
    with pytest.raises(ConfigError) as raised:
        provider_model("minimax/minimax-m2.5")
    assert "doesn't ask the provider 'minimax'" in raised.value.message
    assert "or novita/minimax/minimax-m2.5?" in raised.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "groq/compound-mini",
        "openai/gpt-4o-search-preview",
        "openai/o4-mini-deep-research",
        "openrouter/openai/gpt-5-mini:online",
        "openrouter/perplexity/sonar",
        "vercel_ai_gateway/perplexity/sonar-pro",
    ],
)
def test_models_with_fees_that_no_count_shows_are_not_asked(name: str) -> None:
    with pytest.raises(ConfigError, match="for fees that no count of tokens shows"):
        provider_model(name)
    with pytest.raises(ConfigError):
        refuse_unasked(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("google/gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("ollama/llama3", "`baton workers detect --add`"),
        ("openai", "`baton budget prices openai`"),
        ("openai/", "`baton budget prices openai`"),
        ("openai:gpt-5-mini", "openai/gpt-5-mini"),
        ("nobody/knows", "Known: openai, "),
        ("", "Known: openai, "),
    ],
)
def test_the_name_in_an_entry_is_put_right(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        refuse_unasked(name)
    assert said in raised.value.hint


def test_no_listed_model_is_refused() -> None:
    for name in snapshot().models:
        refuse_unasked(name)


def test_models_of_vertex_that_are_not_gemini_say_why() -> None:
    with pytest.raises(ConfigError, match=r"doesn't ask vertex_ai/claude-opus-4-8: of its models"):
        provider_model("vertex_ai/claude-opus-4-8")


@pytest.mark.parametrize(
    "name",
    ["openai/gpt-5-mini", "openai/gpt-99", "openrouter/some/model", "azure/prod", "groq/a/b/c"],
)
def test_a_name_that_is_as_it_must_be_stays_so(name: str) -> None:
    assert provider_model(name) == name


def test_a_short_name_of_fireworks_is_asked_by_its_long_one() -> None:
    full = "fireworks_ai/accounts/fireworks/models/glm-5p2"
    assert provider_model("fireworks_ai/glm-5p2") == full
    assert provider_model(full) == full


@pytest.mark.parametrize(
    "name", ["foo/bar", "models/qwen3", "me/mine", "/gpt-99", "a/", "x/\x1b[2J"]
)
def test_what_means_nothing_is_nothing(name: str) -> None:
    assert provider_model(name) == ""


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("openai:gpt-5-mini", "openai/gpt-5-mini"),
        ("google-gla:gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("xai:grok-99", "xai/grok-99"),
        ("gpt-5-mini", "openai/gpt-5-mini"),
        ("GPT-5-mini", "openai/gpt-5-mini"),
        ("claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("grok-4.3", "xai/grok-4.3"),
        ("glm-5p3", "fireworks_ai/accounts/fireworks/models/glm-5p3"),
        ("claude-opus", "anthropic/claude-opus-4-5"),
    ],
)
def test_a_name_without_its_provider_has_full_ones(name: str, first: str) -> None:
    found = full_names(name)
    assert first in found
    assert found[0].partition("/")[0] == first.partition("/")[0]


@pytest.mark.parametrize("name", ["", "--", "g", "gp", "smal", "nobody", "/", "\x1b[2J"])
def test_a_slip_is_not_a_model(name: str) -> None:
    assert full_names(name) == []


def test_every_listed_model_is_found_by_its_bare_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_fold", "_by_provider"):  # each name is compared with all of the list
        monkeypatch.setattr(provider_models, name, cache(getattr(provider_models, name)))
    for model in snapshot().models:
        if not is_over(model, "9999"):
            assert model in full_names(model.partition("/")[2]), model
            assert provider_model(model) == model


def test_what_is_unusable_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = dict.fromkeys(("input", "output", "cache_read", "cache_write"), "1")
    models = {"openai/old": rates | {"until": "2020-01-02"}, "openai/new": rates}
    listed = price_table.Snapshot({}, "", models, {"openai/odd": "no price", "xai/x": "?"})
    monkeypatch.setattr("baton.workers.cloud.provider_models.snapshot", lambda: listed)
    monkeypatch.setattr(price_table, "snapshot", lambda: listed)
    over = {"openai/old": "withdrawn on 2020-01-02"}
    assert why_unusable(["openai"]) == {"openai/odd": "no price"} | over
    assert why_unusable(["OPENAI", "ol"]) == over
    assert why_unusable([]) == {"openai/odd": "no price", "xai/x": "?"} | over
    assert why_unusable(["google"]) == {"google": "Baton asks these models as gemini/."}
    assert "needs `base_url` and `price`." in why_unusable(["azure"])["azure"]
    assert "needs `price`." in why_unusable(["huggingface"])["huggingface"]
