"""What other programs need in their settings to use Baton."""

from __future__ import annotations

import difflib

from baton.core.errors import ConfigError
from baton.server.tokens import ServerTokens

_CLIENTS = {
    "openai": """\
# Python, the package openai
from openai import OpenAI

client = OpenAI(base_url="{url}", api_key="{token}")
answer = client.chat.completions.create(
    model="baton/auto", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)""",
    "curl": """\
curl {url}/chat/completions -H "Authorization: Bearer {token}" \\
  -H "Content-Type: application/json" \\
  -d '{{"model": "baton/auto", "messages": [{{"role": "user", "content": "Hello"}}]}}'""",
    "llm": """\
# In extra-openai-models.yaml, in the folder that `llm logs path` names; then `llm keys set baton`
# with {token}
- model_id: baton
  model_name: baton/auto
  api_base: {url}
  api_key_name: baton""",
    "aider": """\
export OPENAI_API_BASE={url}
export OPENAI_API_KEY={token}
aider --model openai/baton/auto""",
    "continue": """\
# In ~/.continue/config.yaml
models:
  - name: Baton
    provider: openai
    model: baton/auto
    apiBase: {url}
    apiKey: {token}""",
    "opencode": """\
// In opencode.json
{{
  "$schema": "https://opencode.ai/config.json",
  "provider": {{
    "baton": {{
      "npm": "@ai-sdk/openai-compatible",
      "name": "Baton",
      "options": {{ "baseURL": "{url}", "apiKey": "{token}" }},
      "models": {{ "baton/auto": {{}}, "baton/ultra": {{}} }}
    }}
  }}
}}""",
    "crush": """\
// In ~/.config/crush/crush.json
{{
  "providers": {{
    "baton": {{
      "type": "openai",
      "base_url": "{url}",
      "api_key": "{token}",
      "models": [{{ "id": "baton/auto", "name": "Baton", "context_window": 8192 }}]
    }}
  }}
}}""",
    "codex": """\
# In ~/.codex/config.toml; then: export BATON_TOKEN={token}
model = "baton/auto"
model_provider = "baton"

[model_providers.baton]
name = "Baton"
base_url = "{url}"
env_key = "BATON_TOKEN"
wire_api = "responses\"""",
    "open-webui": """\
# The environment of Open WebUI; from a container, this machine may have another address
OPENAI_API_BASE_URL={url}
OPENAI_API_KEY={token}""",
    "anthropic": """\
# The package anthropic, and programs that read the same variables
export ANTHROPIC_BASE_URL={root}
export ANTHROPIC_API_KEY={token}
export ANTHROPIC_MODEL=baton/auto""",
}
"""The settings of each client; `url` is the endpoint's, `token` the one that is free to use."""


def client_settings(name: str, port: int, tokens: ServerTokens) -> str:
    """Return a client's settings, or with "list" the clients' names. Raises ConfigError."""
    if name == "list":
        return "\n".join(_CLIENTS)
    template = _CLIENTS.get(name.lower())
    if template is None:
        near = difflib.get_close_matches(name.lower(), _CLIENTS, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(_CLIENTS)}."
        raise ConfigError(f"There are no settings for a client {name[:40]!r}.", hint)
    root = f"http://127.0.0.1:{port}"
    return template.format(url=f"{root}/v1", root=root, token=tokens.free)
