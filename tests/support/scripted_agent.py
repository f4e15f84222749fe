"""A worker with room for 200,000 tokens that runs a correct agent, for programs that use Baton.

It does what the prompts of `tests/programs` ask for: writes files with the tools that the program
offers, answers in the form that is asked for, and finds a password in a long text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baton.core.messages import Card, Chunk, Message, Request, Text
from baton.workers.scripted_worker import ScriptedWorker

CONTEXT = 200_000
COUNTED = "one two three four five"
FORECAST = "It is sunny in Oslo."
DONE = "All of it is done."

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_WRITE = re.compile(r"Write the word (\w+) into the file (\S+\.txt)")
_APPEND = re.compile(r"Append the words (\w+), (\w+) and (\w+) to the file (\S+\.txt)")
_PASSWORD = re.compile(r"The password is (\S+)\.")
_RESULT = "<tool_response>"
_FORM_TOOL = re.compile(r"structured|final_result|final_answer", re.IGNORECASE)

_Tool = Mapping[str, Any]


def scripted_agent(context: int = CONTEXT) -> ScriptedWorker:
    """Return the worker."""
    return ScriptedWorker(_execute, Card("agent", "local", "Agent", context=context, slots=64))


def _execute(request: Request) -> Iterable[Chunk]:
    answer = _answer(request.messages)
    if request.shape is not None:
        _, _, call = answer.partition("<tool_call>")
        form = instance(json.loads(request.shape.schema))
        yield Text(call.removesuffix("</tool_call>") or json.dumps(form))
        return
    for word in re.findall(r"\S+\s*", answer):
        yield Text(word)


def _answer(messages: Sequence[Message]) -> str:
    text = "\n".join(message.text for message in messages if message.role != "system")
    tools = _offered(messages)
    results = text.count(_RESULT) + text.count("Observation:")
    if match := _APPEND.search(text):
        return _append(tools, match, results)
    if match := _WRITE.search(text):
        return _write(tools, match, results)
    if "weather in Oslo" in text:
        return _call(tools, "weather", {}) if tools and not results else FORECAST
    if "Count from one to five" in text:
        return COUNTED
    if "What is the password?" in text and (match := _PASSWORD.search(text)):
        return f"The password is {match[1]}."
    if "Describe Oslo" in text and (form := [t for t in tools if _FORM_TOOL.search(t["name"])]):
        return _call(form, form[0]["name"], {}) if not results else DONE
    return "A short title"


def _offered(messages: Sequence[Message]) -> list[_Tool]:
    """Return the tools that the last system text describes."""
    found = [match for message in messages for match in _TOOLS.findall(message.text)]
    lines = found[-1].splitlines() if found else []
    return [json.loads(line)["function"] for line in lines]


def _write(tools: Sequence[_Tool], match: re.Match[str], results: int) -> str:
    """Write a file by the tool for it, by a shell, or as a program without tools reads it."""
    word, path = match.groups()
    if results:
        return DONE
    name = path.rpartition("/")[2]
    if not tools:
        return f"{name}\n```\n{word}\n```\n"
    content = [tool for tool in tools if {"content", "contents"} & set(_properties(tool))]
    with_path = [tool for tool in content if "path" in str([*_properties(tool)]).lower()]
    known = dict.fromkeys(("path", "file_path", "filePath", "filepath", "absolute_path"), path)
    known |= dict.fromkeys(("content", "contents"), f"{word}\n")
    if with_path:
        return _call(with_path, with_path[0]["name"], known)
    return _run(tools, f"echo {word} > {path}")


def _append(tools: Sequence[_Tool], match: re.Match[str], results: int) -> str:
    """Append a word a turn; where there are no tools, write a wrong file first, then the right."""
    *words, path = match.groups()
    if not tools:
        name = path.rpartition("/")[2]
        is_first = match.string.count("```") < 2 or "exit" not in match.string.lower()
        content = words[0] if is_first else "\n".join(words)
        return f"{name}\n```\n{content}\n```\n"
    if results >= len(words):
        last = [tool for tool in tools if tool["name"] == "final_answer"]
        return _call(last, "final_answer", {"answer": DONE}) if last else DONE
    own = [tool for tool in tools if tool["name"] == "append"]
    if own:
        return _call(own, "append", {"word": words[results]})
    return _run(tools, f"echo {words[results]} >> {path}")


def _run(tools: Sequence[_Tool], command: str) -> str:
    """Call the tool that runs a command line."""
    for tool in tools:
        for key in ("command", "cmd"):
            if (schema := _properties(tool).get(key)) is not None:
                is_list = schema.get("type") == "array"
                value = ["bash", "-lc", command] if is_list else command
                return _call([tool], tool["name"], {key: value})
    raise AssertionError(f"no tool runs a command: {[tool['name'] for tool in tools]}")


def _call(tools: Sequence[_Tool], name: str, known: Mapping[str, Any]) -> str:
    """Write a call with the arguments that are known and required ones that fit the schema."""
    schema = next(tool["parameters"] for tool in tools if name in tool["name"])
    called = next(tool["name"] for tool in tools if name in tool["name"])
    arguments = instance(schema)
    arguments |= {key: value for key, value in known.items() if key in schema["properties"]}
    written = json.dumps({"name": called, "arguments": arguments})
    return f"I call it. <tool_call>\n{written}\n</tool_call>"


def _properties(tool: _Tool) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tool["parameters"].get("properties", {})
    return found


def instance(schema: Any, root: Any = None) -> Any:
    """Return a value that a JSON Schema allows: "Oslo" for texts, 7 for integers."""
    root = schema if root is None else root
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return instance(target, root)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return instance(schema[key][0], root)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {
            name: instance(properties.get(name, {}), root)
            for name in schema.get("required", properties)
        }
    if kind == "array":
        return [instance(schema.get("items", {}), root)] * max(1, schema.get("minItems", 1))
    return {"integer": 7, "number": 7.5, "boolean": True, "null": None}.get(kind, "Oslo")
