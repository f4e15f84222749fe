"""`baton serve --print-config`: what other programs need to use Baton, and whether it suffices."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from baton.compose import answering_card
from baton.core.errors import ConfigError
from baton.core.messages import Card
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings
from baton.server.access import ServerTokens
from baton.server.client_settings import (
    AnsweringModel,
    PrintedSettings,
    client_settings,
    read_clients,
)

TOKENS = ServerTokens("baton-free-f", "baton-spend-s", "baton-private-p")
READERS = {".json": json.loads, ".toml": tomllib.loads, ".yaml": yaml.safe_load}


def printed(name: str, context: int = 8192, most: int = 0, kind: str = "local") -> PrintedSettings:
    model = AnsweringModel(Card("small", kind, "SmolLM2 135M", context=context), most)
    return client_settings(name, 8765, TOKENS, model)


@pytest.mark.parametrize("name", read_clients())
def test_what_is_printed_is_what_the_program_reads(name: str) -> None:
    text = printed(name).text
    assert "127.0.0.1:8765" in text
    assert TOKENS.free in text
    for unfilled in ("{url}", "{root}", "{token}", "{context}", "{max_output}"):
        assert unfilled not in text
    place = read_clients()[name].place
    for suffix, read in READERS.items():
        if place.strip('"').endswith(suffix):
            assert read(text)


@pytest.mark.parametrize(
    "name", ["codex", "opencode", "qwen-code", "pi", "continue", "claude-code"]
)
def test_the_context_of_the_model_that_answers_is_declared(name: str) -> None:
    assert "12345" in printed(name, context=12345).text
    assert "8192" in printed(name, context=32768, most=8192).text  # more than the model can read
    assert "32768" not in printed(name, context=32768, most=8192).text


def test_a_context_that_is_too_small_is_named_with_the_setting_that_changes_it() -> None:
    *_, note = printed("claude-code", most=131072).notes
    assert "needs 20,000 tokens" in note
    assert "small reads 8,192" in note
    assert "BATON_LOCAL__CONTEXT=32768 baton serve" in note
    assert "can't read more" not in note
    assert len(printed("claude-code", context=32768).notes) == 1
    assert len(printed("openai").notes) == 1


def test_a_model_that_cannot_read_more_is_named() -> None:
    *_, note = printed("codex", context=32768, most=8192).notes
    assert "SmolLM2 135M can't read more" in note
    *_, other = printed("codex", kind="server").notes
    assert "Set the `context` of small" in other


def test_an_unknown_client_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as refused:
        printed("claude")
    assert refused.value.hint == "Did you mean 'claude-code'?"
    assert "claude-code  Claude Code" in printed("list").text


def test_the_answering_model_is_found_without_loading_it(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    card, most = answering_card(Settings(), paths)
    assert (card.id, card.context, most) == ("small", 8192, 8192)

    config = paths.config_file
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        'worker = "big"\n[[workers]]\nkind = "server"\nid = "big"\nmodel = "m"\n'
        'base_url = "http://127.0.0.1:9/v1"\ncontext = 65536\n'
    )
    card, most = answering_card(load_settings(config), paths)
    assert (card.id, card.context, most) == ("big", 65536, 0)
