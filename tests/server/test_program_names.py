"""What programs are called by their headers: short, known and harmless."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from baton.core.sanitiser import sanitise
from baton.server.program_names import MAX_PROGRAM_CHARS, OTHER_PROGRAM, program_name


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"user-agent": "claude-cli/2.1.197 (external, cli)", "x-app": "cli"}, "Claude Code"),
        ({"user-agent": "codex_cli_rs/0.171.0 (Ubuntu 24.4.0; x86_64)"}, "Codex"),
        ({"user-agent": "codex_exec/0.171.0", "originator": "codex_exec"}, "Codex"),
        ({"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/3.0"}, "opencode"),
        ({"user-agent": "OpenAI/Python 3.57.0"}, "OpenAI SDK for Python"),
        ({"user-agent": "AsyncOpenAI/Python 3.57.0"}, "OpenAI SDK for Python"),
        ({"user-agent": "OpenAI/JS 6.49.0"}, "OpenAI SDK for JavaScript"),
        ({"user-agent": "Anthropic/Python 2.14"}, "Anthropic SDK for Python"),
        ({"user-agent": "ai-sdk/openai-compatible/2.0.92 ai/6.0"}, "Vercel AI SDK"),
        ({"user-agent": "aider/0.86", "http-referer": "https://aider.chat"}, "aider"),
        ({"user-agent": "litellm/1.108.7"}, "LiteLLM"),
        ({"user-agent": "curl/8.5.0"}, "curl"),
        ({"user-agent": "python-httpx/0.28"}, "a Python program"),
        ({"user-agent": "OpenAI/Python 2", "x-title": "Cline"}, "Cline"),
        ({"user-agent": "OpenAI/JS 5", "http-referer": "https://www.my-tool.dev/x"}, "my-tool.dev"),
        ({"user-agent": "MyTool/3 (x)"}, "MyTool"),
        ({"user-agent": ""}, OTHER_PROGRAM),
        ({"user-agent": "///"}, OTHER_PROGRAM),
        ({"http-referer": "http://[bad"}, OTHER_PROGRAM),
        ({}, OTHER_PROGRAM),
    ],
)
def test_programs_have_short_names(headers: dict[str, str], name: str) -> None:
    assert program_name(headers) == name


@given(
    st.dictionaries(
        st.sampled_from(["user-agent", "x-title", "originator", "http-referer"]), st.text()
    )
)
def test_any_header_gives_a_harmless_name(headers: dict[str, str]) -> None:
    name = program_name(headers)
    assert 0 < len(name) <= MAX_PROGRAM_CHARS
    assert sanitise(name) == name
    assert " ".join(name.split()) == name
