"""Chat templates: the Jinja text in a model file that turns messages into one prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2.exceptions import SecurityError

from baton.workers.local.child.template_sandbox import TemplateSandbox

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""Stands in for a template that is missing or broken."""

MAX_REASON_CHARS = 300

MAX_OWN_CHARS, MAX_CHARS_PER_MESSAGE = 32_000, 256
"""How much longer a prompt may be than twice its messages: of 1 MB of control tokens, which only
the template may write, llama.cpp takes a minute to find all, while all others wait."""

_EFFORTS = {True: ("medium", "high"), False: ("none", "no_think", "minimal", "low")}
"""How much a model thinks, for templates that know steps: the first of these they name."""

Messages = Sequence[dict[str, str]]
"""Messages as templates know them: `role` and `content`."""


class TemplateRefused(Exception):
    """The template can't render these messages; its own words say why."""


class TemplateUnusable(TemplateRefused):
    """The template takes too much time or memory, or leaves out what it is given."""


class ChatTemplate:
    """A compiled chat template. Raises jinja2.TemplateError if it can't be compiled."""

    def __init__(self, source: str, bos: str, eos: str) -> None:
        self._sandbox = TemplateSandbox({"tojson": _to_json})
        self._template = self._sandbox.from_string(source)
        self._source = source
        self._known = {
            "bos_token": bos,
            "eos_token": eos,
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
            "raise_exception": _refuse,
            "strftime_now": lambda text: datetime.now().strftime(text),
        }

    def render(self, messages: Messages, thinking: bool | None = None) -> str:
        """Return the prompt; the model writes thoughts first if `thinking`, and if it can.

        With None it does where its template has no switch for that. Raises TemplateRefused, or
        TemplateUnusable where it would refuse all others too.
        """
        ways = [messages]
        if len(messages) > 1 and messages[0]["role"] == "system":
            ways.append(_without_system(messages))
        refused: TemplateRefused | None = None
        for switches in (self._switches(thinking), {}):  # some refuse a switch they don't have
            for shown in ways:
                try:
                    return self._render(shown, switches)
                except TemplateUnusable:
                    raise
                except TemplateRefused as error:
                    refused = refused or error
        assert refused is not None
        raise refused

    def _switches(self, thinking: bool | None) -> dict[str, Any]:
        """Return what templates of all families look for, each in its own word."""
        found: dict[str, Any] = {"enable_thinking": bool(thinking), "thinking": bool(thinking)}
        if thinking is not None and "reasoning_effort" in self._source:
            named = (e for e in _EFFORTS[thinking] if f"'{e}'" in self._source.replace('"', "'"))
            if effort := next(named, "" if thinking else "low"):
                found["reasoning_effort"] = effort
        return found

    def _render(self, messages: Messages, switches: Mapping[str, Any]) -> str:
        self._sandbox.allow(sum(len(message["content"]) for message in messages), len(messages))
        try:
            prompt = self._template.render(messages=messages, **self._known, **switches)
        except TemplateRefused:
            raise
        except (SecurityError, RecursionError, MemoryError) as error:
            raise TemplateUnusable(_reason(error)) from error
        except Exception as error:  # a template can fail in as many ways as a program
            raise TemplateRefused(_reason(error)) from error
        if not prompt.strip():
            raise TemplateUnusable("it makes an empty prompt")
        given = sum(2 * len(message["content"]) + MAX_CHARS_PER_MESSAGE for message in messages)
        if len(prompt) > MAX_OWN_CHARS + given:
            raise TemplateUnusable("it makes too long a text")
        return prompt


def compile_template(source: str | None, bos: str, eos: str) -> tuple[ChatTemplate, str]:
    """Return the model's template, or ChatML with a sentence on why it stands in."""
    note = "The model has no chat template, so its answers may ramble."
    if source is not None:
        try:
            return ChatTemplate(source, bos, eos), ""
        except Exception:  # Python compiles what Jinja makes of it, and has limits of its own
            note = "The model's chat template is broken, so its answers may ramble."
    return ChatTemplate(CHATML, bos, eos), note


def _without_system(messages: Messages) -> Messages:
    """Put the system text into the first prompt, for templates that know no system role."""
    system, first, *rest = messages
    merged = {"role": first["role"], "content": f"{system['content']}\n\n{first['content']}"}
    return [merged, *rest]


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as JSON; with Transformers' parameters, and no more of Python's."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _refuse(message: str) -> None:
    raise TemplateRefused(str(message)[:MAX_REASON_CHARS].rstrip("."))


def _reason(error: BaseException) -> str:
    """Return in a few words why a template failed."""
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    if isinstance(error, RecursionError):
        return "it calls itself without an end"
    return (str(error) or type(error).__name__)[:MAX_REASON_CHARS].rstrip(".")
