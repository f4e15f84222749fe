"""What each listed model is asked for: by the table, over the whole list and all settings.

The writers are litellm's. `litellm_departures.json` holds where they would ask for thinking in
another way than the table does; a new version of litellm that changes its mind shows here.
`python -m workers.cloud.child.test_request_writer` writes it again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.child.request_guard import CAP_FIELDS
from baton.workers.cloud.model_settings import FAMILIES_FILE, LEVELS, _entries, family_of
from baton.workers.cloud.price_table import snapshot, thinking_tokens

LITELLMS_LIST = Path(
    str(distribution("litellm").locate_file("litellm/model_prices_and_context_window_backup.json"))
)
DEPARTURES = Path(__file__).with_name("litellm_departures.json")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "drawn": {"temperature": 0.7, "top_p": 0.9, "seed": 7},
    "greedy": {"temperature": 0.0, "top_p": 0.9},
    "narrow": {"top_p": 0.95},
    "short": {"cap": 300},
    "formed": {"schema": '{"type":"object","properties":{},"additionalProperties":false}'},
}
EFFORTS = ("none", "low", "medium", "high")
ELSEWHERE = (
    *("azure/prod-chat", "azure/gpt-5-pro", "azure/o3", "azure/gpt-5.2", "azure/gpt-4o-mini"),
    *("bedrock_mantle/openai.gpt-oss-120b", "bedrock_mantle/openai.gpt-5.4"),
    *("groq/qwen/qwen3-32b", "groq/deepseek-r1-distill-llama-70b", "xai/grok-3-mini", "xai/grok-3"),
    *("anthropic/claude-3-7-sonnet-20250219", "anthropic/claude-opus-4-1", "cerebras/zai-glm-4.7"),
    *("anthropic/claude-sonnet-4-20250514", "cohere/command-a-reasoning-08-2025"),
    *("openrouter/openai/gpt-5-pro", "openrouter/nobody/knows-it", "gemini/gemini-3-pro-preview"),
    *("openai/gpt-7-of-tomorrow", "openai/o3-deep", "anthropic/claude-unknown", "xai/grok-9"),
    *("huggingface/Qwen/Qwen3-32B", "perplexity/sonar", "vercel_ai_gateway/openai/gpt-5-mini"),
    *("bedrock/us.anthropic.claude-opus-4-7-v1:0", "bedrock/amazon.nova-pro-v1:0"),
    *("zai/glm-4.7-flash", "moonshot/kimi-k2-thinking", "mistral/magistral-small-2509"),
)
"""Models that the list doesn't have: without a price, at an own address, or of tomorrow."""

WRITE = """
import asyncio, json, sys
from baton.ipc.parent_channel import Failure
from baton.workers.cloud.child.litellm_requests import LitellmRequests, _configuration
from baton.workers.cloud.child.request_guard import UnfitRequest, check_request, check_url
from baton.workers.cloud.child.request_writer import RequestWriter
from baton.workers.cloud.model_settings import family_of
from workers.cloud.child.test_cloud_call import call

def asked_by_litellm(one, level):
    try:
        options = _configuration(one).map_openai_params(
            non_default_params={"reasoning_effort": level, "max_tokens": one.cap},
            optional_params={}, model=one.model, drop_params=True)
    except Exception as error:
        return type(error).__name__
    names = ("reasoning_effort", "reasoning", "thinking", "output_config", "thinkingConfig")
    found = {name: options[name] for name in names if name in options}
    return found | options.get("extra_body", {}).get("reasoning", {})

async def write(effort, **asked):
    writer = writers.setdefault(effort, RequestWriter(effort))
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    bound = 4 + len(asked.get("schema", "")) * 4  # a stop of two between S and U
    one = call(messages=messages, bound=bound, **asked)
    refused, body = "", {}
    try:
        request = await writer.write(one)
        body = json.loads(request.body)
        check_url(request.url, one.base_url)
        check_request(request.body, one.dialect, one.model, one.cap, one.bound,
                      has_schema=bool(one.schema), must_not_store=one.must_not_store)
    except (UnfitRequest, Failure) as error:
        refused = str(error)
    level = family_of(f"{one.provider}/{one.model}").level(effort)
    theirs = asked_by_litellm(one, level) if level and asked == one_of(asked) else None
    return [refused, body, one.dialect, theirs]

def one_of(asked):
    return {name: asked[name] for name in ("provider", "model", "base_url", "cap")}

async def main():
    await LitellmRequests().ready()
    for line in sys.stdin:
        print(json.dumps([await write(**asked) for asked in json.loads(line)]), flush=True)

writers = {}
asyncio.run(main())
"""


class WriterProcess:
    """A process in which litellm is loaded, which takes seconds; it keeps what it wrote."""

    def __init__(self) -> None:
        self._written: dict[str, list[Any]] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", WRITE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path), "HOME": os.environ["HOME"]},
            text=True,
        )

    def write(self, cases: list[Case]) -> list[list[Any]]:
        """Return for each: the guard's refusal, the body, the dialect, litellm's own thinking."""
        asked = [json.dumps(call_of(*case)) for case in cases]
        missing = [one for one in dict.fromkeys(asked) if one not in self._written]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(f"[{','.join(missing)}]", file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"it ended with {self._process.wait()}"
        self._written |= zip(missing, json.loads(line), strict=True)
        return [self._written[one] for one in asked]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def writer() -> Iterator[WriterProcess]:
    """The process that writes for all tests here."""
    process = WriterProcess()
    yield process
    process.close()


Case = tuple[str, str, str]
"""A model, an effort, and a key of SETTINGS."""


def call_of(model: str, effort: str, settings: str) -> dict[str, Any]:
    """Return a call of a model at its provider's address."""
    provider, _, name = model.partition("/")
    address = PROVIDERS[provider].base_url or "https://example.com/v1"
    asked = {"provider": provider, "model": name, "base_url": address, "cap": 4096}
    return {"effort": effort, **asked, **SETTINGS[settings]}


def options_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with Gemini's settings beside the others, under the names of the others."""
    options: dict[str, Any] = (
        body | body.get("generationConfig", {}) | body.get("inferenceConfig", {})
    )
    if "topP" in options:
        options["top_p"] = options["topP"]
    return options


def faults(model: str, effort: str, settings: str, written: list[Any]) -> list[str]:
    """Return what a model wouldn't take of a request, by the table and the makers' rules."""
    refused, body, _, _ = written
    family, options = family_of(model), options_of(body)
    if refused:
        return [refused]
    found = []
    caps = {name: options[name] for name in CAP_FIELDS if name in options}
    if list(caps.values()) != [call_of(model, effort, settings)["cap"]]:
        found.append(f"caps {caps}")
    budget = options.get("thinking", {}).get("budget_tokens")
    if budget is not None and not 1024 <= budget < options["max_tokens"]:
        found.append(f"a budget of {budget}")
    sent = options.get("reasoning_effort") or (options.get("reasoning") or {}).get("effort")
    if sent is not None and sent not in family.levels.values():
        found.append(f"an effort of {sent}")
    if {"temperature", "top_p"} & options.keys():
        is_thinking = options.get("thinking", {}).get("type") in ("enabled", "adaptive") or (
            sent not in (None, "none") and family.sampling == "unthinking"
        )
        if family.sampling == "none" or (is_thinking and family.sampling != "both"):
            found.append("sampling")
        if family.sampling == "one" and {"temperature", "top_p"} <= options.keys():
            found.append("temperature and top_p")
    if settings == "greedy" and "top_p" in options and not family.greedy_top_p:
        found.append("top_p beside 0")
    roles = [said["role"] for said in body.get("messages") or body.get("input") or ()]
    if roles and model.startswith(("openai/", "azure/")) and roles[0] != "system":
        found.append("the system's text has another rank")
    return found


def check(writer: WriterProcess, cases: list[Case]) -> None:
    """Write all of them, and assert that their models take them."""
    written = writer.write(cases)
    bad = {
        case: found
        for case, one in zip(cases, written, strict=True)
        if (found := faults(*case, one))
    }
    assert not bad


MODELS = (*snapshot().models, *ELSEWHERE)
CASES = [
    (model, effort, settings) for model in MODELS for effort in EFFORTS for settings in SETTINGS
]


def test_every_listed_model_can_be_asked_at_default_settings(writer: WriterProcess) -> None:
    check(writer, [(model, "low", "default") for model in MODELS])


def test_what_is_not_listed_for_a_reason_would_not_be_sent(writer: WriterProcess) -> None:
    other = "vertex_ai/xai/grok-4.3"
    assert other not in snapshot().models
    [[refused, *_]] = writer.write([(other, "low", "default")])
    assert "the answer's cap" in refused


def test_a_drawn_part_of_all_settings_is_taken(writer: WriterProcess) -> None:
    check(writer, random.Random(43).sample(CASES, 1500))


@pytest.mark.long
def test_all_settings_of_all_models_are_taken(writer: WriterProcess) -> None:
    check(writer, CASES)


def departures(writer: WriterProcess) -> dict[str, list[Any]]:
    """Return where litellm asks for thinking otherwise: the models, its fields and the table's."""
    cases = [(model, effort, "default") for model in snapshot().models for effort in EFFORTS]
    found: dict[str, list[Any]] = {}
    for (model, effort, _), (_, body, _, theirs) in zip(cases, writer.write(cases), strict=True):
        options = options_of(body)
        names = ("reasoning_effort", "reasoning", "thinking", "output_config", "thinkingConfig")
        ours = {name: options[name] for name in names if name in options}
        if theirs is not None and theirs != ours:
            found[f"{model} {effort}"] = [theirs, ours]
    return found


@pytest.mark.sampled(0.5)
def test_litellm_asks_for_thinking_as_the_table_does_but_where_that_is_known(
    writer: WriterProcess,
) -> None:
    assert departures(writer) == json.loads(DEPARTURES.read_text("utf-8"))


@pytest.mark.parametrize(
    "model",
    [
        "azure/o1-mini",
        "gemini/gemini-2.5-flash-image",
        "mistral/mistral-medium-2505",
        "mistral/mistral-medium-2508",
        "openai/o1-preview-2024-09-12",
        "xai/grok-4-1-fast-non-reasoning",
        "xai/grok-4-fast-non-reasoning",
    ],
)
def test_models_that_know_no_effort_are_asked_for_none(writer: WriterProcess, model: str) -> None:
    [[refused, body, *_]] = writer.write([(model, "high", "default")])
    names = {"reasoning_effort", "reasoning", "thinking", "thinkingConfig"}
    assert not refused
    assert not names & options_of(body).keys()


@pytest.mark.parametrize("router", ["openrouter", "perplexity", "vercel_ai_gateway"])
def test_claude_behind_a_router_gets_one_of_temperature_and_top_p(
    writer: WriterProcess, router: str
) -> None:
    model = f"{router}/anthropic/claude-sonnet-4.5"
    [[_, body, *_]] = writer.write([(model, "none", "drawn")])
    assert not {"temperature", "top_p"} <= body.keys()


def test_an_effort_is_the_nearest_that_a_model_takes() -> None:
    taken = {
        ("openai/gpt-5-pro", "low"): "high",
        ("openai/gpt-5.2-pro", "none"): "medium",
        ("openai/gpt-5.2", "none"): "none",
        ("openai/o3", "none"): "low",
        ("xai/grok-4.3", "none"): "none",
        ("xai/grok-4.20-0309-reasoning", "low"): "",
        ("xai/grok-code-fast-1", "high"): "",
        ("mistral/mistral-medium-latest", "medium"): "none",
        ("deepseek/deepseek-v4-pro", "none"): "none",
        ("groq/openai/gpt-oss-120b", "none"): "low",
        ("bedrock_mantle/openai.gpt-oss-20b", "none"): "low",
        ("azure/gpt-5-pro", "low"): "high",
    }
    assert {case: family_of(case[0]).level(case[1]) for case in taken} == taken


@pytest.mark.parametrize(
    ("model", "cap", "level", "fields"),
    [
        ("anthropic/claude-haiku-4-5", 4096, "high", {"budget_tokens": 2048}),
        ("anthropic/claude-haiku-4-5", 3000, "high", {"budget_tokens": 1500}),
        ("anthropic/claude-haiku-4-5", 64_000, "high", {"budget_tokens": 4096}),
        ("anthropic/claude-haiku-4-5", 2000, "high", {}),
        ("gemini/gemini-2.5-pro", 200, "low", {"thinkingBudget": 128}),
        ("gemini/gemini-2.5-flash", 300, "low", {"thinkingBudget": 0}),
    ],
)
def test_a_budget_leaves_room_for_the_answer(
    model: str, cap: int, level: str, fields: dict[str, int]
) -> None:
    _, asked = family_of(model).ask_for(level, cap)
    found = asked.get("thinking") or asked.get("thinkingConfig") or {}
    assert {name: found[name] for name in found if "udget" in name} == fields


@pytest.mark.parametrize(
    "model",
    [
        "together_ai/deepseek-ai/DeepSeek-R1-0528",
        "together_ai/zai-org/GLM-4.7",
        "fireworks_ai/accounts/fireworks/models/kimi-k2-thinking",
        "sambanova/DeepSeek-R1",
    ],
)
def test_open_models_think_at_every_provider(model: str) -> None:
    assert model in snapshot().models
    assert thinking_tokens(model, "low") > 0


def test_a_model_for_instructions_does_not_think() -> None:
    assert thinking_tokens("novita/qwen/qwen3-235b-a22b-instruct-2507", "low") == 0


def test_more_room_is_held_for_a_model_that_thinks_more_than_wanted() -> None:
    assert thinking_tokens("openai/gpt-5-pro", "low") == thinking_tokens(
        "openai/gpt-5-mini", "high"
    )
    assert thinking_tokens("openai/gpt-4.1", "high") == 0


def test_the_table_is_sound_and_none_of_it_is_dead() -> None:
    """Each entry has a source and a day, and some model that it speaks of."""
    known = {*MODELS, "gemini/gemma-3-27b-it", "cerebras/zai-glm-4.6"}
    raw = json.loads(LITELLMS_LIST.read_text("utf-8"))
    for entry in _entries():
        assert entry["source"]
        assert date.fromisoformat(entry["date"]) <= date.today()
        assert any(entry["source"] in family_of(model).source for model in known) or len(entry) > 3
        family_of(entry["models"][0])
    for model in known:
        assert set(family_of(model).levels) <= set(LEVELS)
        if model in snapshot().models and model.startswith("openai/"):
            is_responses = raw[model.removeprefix("openai/")]["mode"] == "responses"
            assert is_responses == (family_of(model).dialect == "responses"), model


def main() -> None:
    """Write where litellm differs."""
    writer = WriterProcess()
    rows = departures(writer)
    writer.close()
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
    DEPARTURES.write_text("{\n" + text + "\n}\n", "utf-8")
    print(f"{len(rows)} of {FAMILIES_FILE.name} differ from litellm")


if __name__ == "__main__":
    main()
