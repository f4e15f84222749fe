"""Why Baton reads answers itself: what litellm's parsers of chunks don't give.

A reader of ours can go once its provider's parser gives text, count and reason of the end of every
chunk, also of a bad one. Then the test of that provider fails here; docs/cloud-providers.md has the
list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from support.metered_calls import MODELS

PARSE = """
import json, os, sys
os.environ |= {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
import litellm
from litellm.llms.anthropic.chat.handler import ModelResponseIterator
from litellm.types.utils import LlmProviders
from litellm.utils import ProviderConfigManager

litellm.suppress_debug_info = True

def parser_of(name):
    provider, _, model = name.partition("/")
    if provider == "handler":
        return ModelResponseIterator(streaming_response=iter(()), sync_stream=True)
    config = ProviderConfigManager.get_provider_chat_config(model, LlmProviders(provider))
    return config.get_model_response_iterator(streaming_response=iter(()), sync_stream=True)

def parse(parser, event):
    try:
        chunk = parser.chunk_parser(event)
    except Exception as error:
        return type(error).__name__
    if isinstance(chunk, dict):
        return [chunk["text"], chunk["finish_reason"] or None, chunk["usage"]]
    [choice], usage = chunk.choices, getattr(chunk, "usage", None)
    count = usage and [usage.prompt_tokens, usage.completion_tokens]
    return [choice.delta.content, choice.finish_reason or None, count]

found = {}
for name, events in json.load(sys.stdin).items():
    parser = parser_of(name)
    found[name] = parser and [parse(parser, event) for event in events]
print(json.dumps(found))
"""

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
GOOD = {
    "id": "1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}],
    "usage": USAGE,
}
CHAT = [GOOD, GOOD | {"usage": USAGE | {"prompt_tokens": "about 10"}}]
MESSAGES = [
    {"type": "message_start", "message": {"usage": {"output_tokens": 1}}},
    {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 90, "output_tokens": 9}},
    {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 0, "output_tokens": 3}},
]
COHERE = [
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hello"}}}},
    {
        "type": "message-end",
        "delta": {
            "finish_reason": "COMPLETE",
            "usage": {"tokens": {"input_tokens": 10, "output_tokens": 5}},
        },
    },
]
WITHOUT_PARSER = ("anthropic", "azure", "gemini", "vertex_ai")
OTHERS = ("cohere", "responses", "server", *WITHOUT_PARSER)
CHATTING = [kind for kind in MODELS if kind not in OTHERS]


@pytest.fixture(scope="module")
def parsed() -> dict[str, Any]:
    """What litellm's parsers give for each event; None where there is no parser."""
    asked: dict[str, Any] = {MODELS[kind]: CHAT for kind in (*CHATTING, *WITHOUT_PARSER)}
    asked |= {"handler/anthropic": MESSAGES, MODELS["cohere"]: COHERE}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PARSE],
        input=json.dumps(asked),
        env={"HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", CHATTING)
def test_text_and_end_beside_a_bad_count_are_lost(parsed: dict[str, Any], kind: str) -> None:
    found, lost = parsed[MODELS[kind]]
    assert found == ["Hello", "stop", [10, 5]]
    assert lost in ("ValidationError", "ValueError", "TypeError")


@pytest.mark.parametrize("kind", WITHOUT_PARSER)
def test_a_configuration_has_no_parser(parsed: dict[str, Any], kind: str) -> None:
    assert parsed[MODELS[kind]] is None


def test_anthropics_handler_makes_up_counts_and_ends(parsed: dict[str, Any]) -> None:
    start, large, small = parsed["handler/anthropic"]
    assert start[2] == [0, 1], "a count that didn't come is 0"
    assert large == ["", "stop", [90, 9]], "a reason that didn't come is stop"
    assert small[2] == [0, 3], "a smaller count replaces a larger one"


def test_cohere_gives_no_count_and_no_end(parsed: dict[str, Any]) -> None:
    assert parsed[MODELS["cohere"]] == [["Hello", None, None], ["", None, None]]
