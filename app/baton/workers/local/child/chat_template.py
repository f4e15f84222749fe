"""Chat templates: the Jinja text in a model file that turns messages into one prompt.

A template comes with the model, so it is rendered in a sandbox that refuses what could hold the
interpreter for long or fill the memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""Stands in for a template that is missing or broken."""

MOST_REPEATED = 100_000
"""How long a text or list a template may make by multiplying, in items."""

_EFFORTS = {True: ("medium", "high"), False: ("none", "no_think", "minimal", "low")}
"""How much a model thinks, for templates that know steps: the first of these they name."""

Messages = Sequence[dict[str, str]]
"""Messages as templates know them: `role` and `content`."""


class TemplateRefused(Exception):
    """The template can't render these messages; its own words say why."""


class _Generation(Extension):
    """Passes Transformers' `{% generation %}` blocks through."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["**", "*"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("a chat template has no use for powers")
        for one, other in ((left, right), (right, left)):
            repeats = isinstance(one, int) and hasattr(other, "__len__")
            if repeats and one * len(other) > MOST_REPEATED:
                raise SecurityError("a chat template makes too long a text")
        return left * right


class ChatTemplate:
    """A compiled chat template. Raises jinja2.TemplateError if it can't be compiled."""

    def __init__(self, source: str, bos: str, eos: str) -> None:
        environment = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(source)
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

        With None it does where its template has no switch for that. Raises TemplateRefused.
        """
        ways = [messages]
        if len(messages) > 1 and messages[0]["role"] == "system":
            ways.append(_without_system(messages))
        refused: TemplateRefused | None = None
        for switches in (self._switches(thinking), {}):  # some refuse a switch they don't have
            for shown in ways:
                try:
                    return self._render(shown, switches)
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
        try:
            return self._template.render(messages=messages, **self._known, **switches)
        except TemplateRefused:
            raise
        except Exception as error:  # a template can fail in as many ways as a program
            raise TemplateRefused(str(error) or type(error).__name__) from error


def compile_template(source: str | None, bos: str, eos: str) -> tuple[ChatTemplate, str]:
    """Return the model's template, or ChatML with a sentence on why it stands in."""
    note = "It has no chat template, so its answers may ramble."
    if source is not None:
        try:
            return ChatTemplate(source, bos, eos), ""
        except (jinja2.TemplateError, RecursionError, ValueError):
            note = "Its chat template is broken, so its answers may ramble."
    return ChatTemplate(CHATML, bos, eos), note


def _without_system(messages: Messages) -> Messages:
    """Put the system text into the first prompt, for templates that know no system role."""
    system, first, *rest = messages
    merged = {"role": first["role"], "content": f"{system['content']}\n\n{first['content']}"}
    return [merged, *rest]


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise TemplateRefused(message)
