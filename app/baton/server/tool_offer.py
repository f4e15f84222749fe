"""A client's tools, offered to any worker in the form that open models were trained on.

The tools stand in the system text, a call is a JSON object between `<tool_call>` tags, and what a
tool gave comes back between `<tool_response>` tags: the form of Hermes 2 Pro (Nous Research, 2024),
which the chat templates of Qwen, SmolLM2 and others have as well. It needs only text, so
that every worker can be asked, and a provider is sent nothing that it charges extra for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from baton.core.messages import AnswerFormat
from baton.core.sanitiser import whole_characters
from baton.core.schema_bounds import DATA_KEYWORDS, schema_problem, unkept_keywords
from baton.server.api_errors import bad_request
from baton.server.request_messages import warn

MAX_TOOLS = 128
MAX_SCHEMA_BYTES = 32 * 1024

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_FREE_INPUT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A client's function; `parameters` is the JSON Schema of its arguments.

    A custom one takes a text, which workers write as the argument `input`. `namespace` is the group
    that it was offered in ("": none).
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    is_custom: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Which tools may be called: any, or those `named` (if not None); whether one must be, or none.

    With `is_single` there is one call at most.
    """

    must_call: bool = False
    is_none: bool = False
    named: Collection[str] | None = None
    is_single: bool = False


AUTO = ToolChoice()


@dataclass(frozen=True)
class ToolOffer:
    """The tools of a request, and how they may be called."""

    tools: tuple[Tool, ...]
    choice: ToolChoice = AUTO

    @property
    def must_call(self) -> bool:
        """Whether the answer has to be a call."""
        return self.choice.must_call

    @cached_property
    def shown(self) -> Mapping[str, Tool]:
        """The tools by what workers call them: with the namespace where another has its name."""
        named = Counter(tool.name for tool in self.tools)
        return {
            f"{tool.namespace}.{tool.name}"
            if tool.namespace and named[tool.name] > 1
            else tool.name: tool
            for tool in self.tools
        }

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name, with or without its namespace, or None."""
        tool_shown = self.shown.get(name)
        return tool_shown or next((tool for tool in self.tools if tool.name == name), None)

    @cached_property
    def instructions(self) -> str:
        """What a worker reads of them."""
        described = "\n".join(as_json(_described(*one)) for one in self.shown.items())
        must = "\n\nAnswer with a function call, and with nothing else." if self.must_call else ""
        return (
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
            f"You are provided with function signatures within <tools></tools> tags:\n<tools>\n"
            f"{described}\n</tools>\n\n"
            "For each function call, return a JSON object with the function's name and arguments"
            f' within {OPEN}{CLOSE} tags:\n{OPEN}\n{{"name": <function-name>, "arguments":'
            f" <arguments-object>}}\n{CLOSE}{must}"
        )

    def shape(self, answer: AnswerFormat | None) -> AnswerFormat | None:
        """Return the form of an answer: of a call, where one must be made, else of either.

        `answer` is how one that isn't a call must look (None: any text). Raises ApiError.
        """
        if answer is None and not self.must_call:
            return None
        whole: dict[str, Any] = {}
        kinds = (
            []
            if answer is None or self.must_call
            else [_placed(json.loads(answer.schema), "answer", whole)]
        )
        for number, (name, tool) in enumerate(self.shown.items()):
            if not self.must_call:  # else it was checked with the choice
                checked_schema(tool.parameters, "tools")
            arguments = _placed(tool.parameters or {"type": "object"}, f"tool{number}", whole)
            kinds.append(
                {
                    "type": "object",
                    "properties": {"name": {"const": name}, "arguments": arguments},
                    "required": ["name", "arguments"],
                    "additionalProperties": False,
                }
            )
        alone = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return AnswerFormat("", as_json({**alone, **whole}))


def read_tools(described: Iterable[object], warnings: list[str]) -> list[Tool]:
    """Return the tools that a request offers, as any of the protocols describes them.

    What isn't the client's to call is left out: only a provider can run it. Raises ApiError.
    """
    tools = list({(t.namespace, t.name): t for t in _tools(described, warnings, "")}.values())
    if len(tools) > MAX_TOOLS:
        raise bad_request(f"There may be {MAX_TOOLS} tools.", "tools")
    return tools


def _tools(described: Iterable[object], warnings: list[str], namespace: str) -> Iterator[Tool]:
    for tool in described:
        if not isinstance(tool, Mapping):
            raise bad_request("A tool is not an object.", "tools")
        kind = tool.get("type") or "function"
        inner = tool.get(kind) if isinstance(kind, str) else None
        fields = inner if isinstance(inner, Mapping) else tool
        name = fields.get("name")
        if kind == "namespace":
            inner = tool.get("tools") or []
            if not isinstance(inner, list):
                raise bad_request("The tools of a namespace are not a list.", "tools")
            yield from _tools(inner, warnings, str(name or ""))
        elif kind not in ("function", "custom"):
            shown = str(kind)[:40]
            warn(warnings, f"The tool {shown!r} was left out: only its provider can run it.")
        elif not isinstance(name, str) or not name:
            raise bad_request("A tool has no name.", "tools")
        else:
            yield _read_tool(name, fields, namespace, is_custom=kind == "custom")


def _read_tool(name: str, fields: Mapping[str, Any], namespace: str, *, is_custom: bool) -> Tool:
    description = str(fields.get("description") or "")
    parameters = fields.get("parameters", fields.get("input_schema"))
    if parameters is None and is_custom:
        syntax = fields.get("format")
        syntax = syntax.get("grammar", syntax) if isinstance(syntax, Mapping) else None
        if isinstance(syntax, Mapping) and isinstance(syntax.get("definition"), str):
            description += f"\n\nThe input has this form:\n{syntax['definition']}"
        return Tool(name, description.strip(), _FREE_INPUT, True, namespace)
    if not isinstance(parameters or {}, Mapping):
        raise bad_request(f"The parameters of the tool {name[:60]!r} are not an object.", "tools")
    return Tool(name, description, parameters or {}, namespace=namespace)


def read_choice(choice: object, *, is_single: bool, warnings: list[str]) -> ToolChoice:
    """Return which tools may be called, as any of the protocols says it. Raises ApiError."""
    fields = choice if isinstance(choice, Mapping) else {"type": choice or "auto"}
    kind = fields.get("type")
    if kind in ("auto", "none", "required", "any"):
        return ToolChoice(kind in ("required", "any"), kind == "none", is_single=is_single)
    if kind == "allowed_tools":
        inner = fields.get(kind)
        allowed = inner if isinstance(inner, Mapping) else fields
        tools = allowed.get("tools")
        named = (
            [name for tool in tools if (name := _named(tool))] if isinstance(tools, list) else []
        )
        return ToolChoice(allowed.get("mode") == "required", named=named, is_single=is_single)
    if name := _named(fields):
        return ToolChoice(True, named=[name], is_single=is_single)
    if kind in ("function", "custom", "tool") or not isinstance(kind, str):
        raise bad_request("This choice of a tool names no function.", "tool_choice")
    if isinstance(choice, str):
        raise bad_request(f"There is no choice of tools {kind[:40]!r}.", "tool_choice")
    warn(warnings, f"The tool {kind[:40]!r} can't be chosen: only its provider can run it.")
    return ToolChoice(is_single=is_single)


def _named(tool: object) -> str:
    """Return the name in a choice of a tool, or ""."""
    fields = tool if isinstance(tool, Mapping) else {}
    inner = fields.get(str(fields.get("type")))
    name = (inner if isinstance(inner, Mapping) else fields).get("name")
    return name if isinstance(name, str) else ""


def offer_tools(tools: Iterable[Tool], choice: ToolChoice, warnings: list[str]) -> ToolOffer | None:
    """Return what a request offers, None for nothing. Raises ApiError."""
    offered = tuple(tools)
    if choice.is_none:
        return None
    if choice.named is not None:
        offered = tuple(tool for tool in offered if tool.name in choice.named)
        if not offered and choice.must_call:
            raise bad_request("The tool that must be called is not among the tools.", "tool_choice")
    elif not offered and choice.must_call:
        raise bad_request("A tool must be called, and there is none.", "tool_choice")
    if not offered:
        return None
    if choice.must_call:
        for tool in offered:
            checked_schema(tool.parameters, "tools")
            warnings += unkept_warnings(tool.parameters, f"the arguments of {tool.name[:60]}")
    return ToolOffer(offered, replace(choice, named=None))


def checked_schema(schema: object, param: str) -> str:
    """Return the JSON of a JSON Schema that is within bounds. Raises ApiError."""
    if problem := schema_problem(schema):
        raise bad_request(problem, param)
    text = as_json(schema)
    if len(text.encode("utf-8", "replace")) > MAX_SCHEMA_BYTES:
        raise bad_request(f"A schema is larger than {MAX_SCHEMA_BYTES:,} bytes.", param)
    return text


def unkept_warnings(schema: object, what: str) -> list[str]:
    """Return a sentence that names what of a schema isn't kept to, where there is such a thing."""
    names = ", ".join(unkept_keywords(schema))
    return [f"A local model doesn't keep {what} to: {names}."] if names else []


def with_instructions(system: str | None, offer: ToolOffer | None) -> str | None:
    """Return a system text that describes the tools as well."""
    if offer is None:
        return system
    return f"{system}\n\n{offer.instructions}" if system else offer.instructions


def as_json(value: object) -> str:
    """Return a value's JSON as models are used to it."""
    return whole_characters(json.dumps(value, ensure_ascii=False))


def _placed(schema: Mapping[str, Any], name: str, whole: dict[str, Any]) -> Mapping[str, Any]:
    """Return a schema for a place within `whole`, where its references hold as well."""
    if "$ref" not in as_json(schema):
        return schema
    whole.setdefault("$defs", {})[name] = _moved(schema, name)
    return {"$ref": f"#/$defs/{name}"}


def _moved(schema: Any, name: str) -> Any:
    """Return a schema whose references hold where it is `#/$defs/<name>` of another."""
    if isinstance(schema, list):
        return [_moved(part, name) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {
        key: value if key in DATA_KEYWORDS else _moved(value, name) for key, value in schema.items()
    }
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = f"#/$defs/{name}{reference[1:]}"
    return moved


def _described(name: str, tool: Tool) -> Mapping[str, Any]:
    function = {
        "name": name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}
