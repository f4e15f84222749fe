"""Conversations of programs: one entry each, under its program's name, apart from the user's."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.messages import Chunk, Finish, Prompt, Request, Role, Text, Usage
from baton.core.ports import ConversationPosition
from baton.server import conversation_finder
from baton.server.access import Grant
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import SMALL, served_baton, wait_until

TOOL = {
    "name": "shell",
    "description": "Run a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
STEPS = 4


def agent(request: Request) -> Iterable[Chunk]:
    """Say a word and call the tool, until there are enough results."""
    done = sum("<tool_response>" in message.text for message in request.messages)
    if done == STEPS:
        yield Text("All is done.")
    else:
        call = {
            "name": "shell",
            "arguments": {"command": f"echo 'é' {done}", "cwd": "/tmp", "n": -1},
        }
        yield Text(f"Step {done}.\n<tool_call>\n{json.dumps(call)}\n</tool_call>")
    yield Usage(10, 5, Finish.STOP)


Rewrite = Callable[[str], str]
"""How a client writes the arguments of a call when it sends them back."""

REWRITES: dict[str, Rewrite] = {
    "as they came": lambda text: text,
    "compact": lambda text: json.dumps(json.loads(text), separators=(",", ":")),
    "in another order": lambda text: json.dumps(dict(reversed(json.loads(text).items()))),
    "escaped and indented": lambda text: json.dumps(json.loads(text), indent=2, ensure_ascii=True),
}


async def chat_loop(client: httpx.AsyncClient, rewrite: Rewrite, choice: str = "auto") -> list[str]:
    """Have the agent's loop over chat completions; return the conversations' ids."""
    messages: list[Any] = [{"role": "user", "content": "Do it."}]
    tools = [{"type": "function", "function": TOOL}]
    seen = []
    for step in range(STEPS + 1):
        body = {"model": "baton/auto", "messages": messages, "tools": tools}
        if step < STEPS:
            body["tool_choice"] = choice
        answer = (await client.post("/chat/completions", json=body)).json()
        seen.append(answer["baton"]["conversation_id"])
        message = answer["choices"][0]["message"]
        if not message.get("tool_calls"):
            break
        function = message["tool_calls"][0]["function"]
        id = f"own-{step}"
        function = {"name": function["name"], "arguments": rewrite(function["arguments"])}
        messages += [
            {
                "role": "assistant",
                "content": message["content"],
                "tool_calls": [{"id": id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": id, "content": f"result {step}"},
        ]
    return seen


async def responses_loop(client: httpx.AsyncClient, rewrite: Rewrite) -> list[str]:
    """The same over Responses as Codex has it: everything is sent along, in items."""
    items: list[Any] = [{"type": "message", "role": "user", "content": "Do it."}]
    seen = []
    for step in range(STEPS + 1):
        body = {"model": "baton/auto", "input": items, "tools": [{"type": "function", **TOOL}]}
        answer = (await client.post("/responses", json=body)).json()
        seen.append(answer["baton"]["conversation_id"])
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        for item in answer["output"]:
            if item["type"] == "message":
                text = item["content"][0]["text"]
                content = [{"type": "output_text", "text": text}]
                items.append({"type": "message", "role": "assistant", "content": content})
        for call in calls:
            id = f"own-{step}"
            called = {"call_id": id, "name": call["name"], "arguments": rewrite(call["arguments"])}
            items.append({"type": "function_call", **called})
            items.append({"type": "function_call_output", "call_id": id, "output": f"got {step}"})
        if not calls:
            break
    return seen


async def messages_loop(client: httpx.AsyncClient, rewrite: Rewrite) -> list[str]:
    """The same over Messages."""
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Do it."}]}]
    tools = [{**TOOL, "input_schema": TOOL["parameters"]}]
    del tools[0]["parameters"]
    seen = []
    for step in range(STEPS + 1):
        body = {"model": "baton/auto", "max_tokens": 99, "messages": messages, "tools": tools}
        answer = (await client.post("/messages", json=body)).json()
        seen.append(answer["baton"]["conversation_id"])
        content, results = [], []
        for block in answer["content"]:
            if block["type"] == "tool_use":
                given = json.loads(rewrite(json.dumps(block["input"])))
                content.append({**block, "id": f"own-{step}", "input": given})
                result = {"type": "tool_result", "tool_use_id": f"own-{step}", "content": "fine"}
                results.append(result)
            else:
                content.append({"type": "text", "text": block["text"]})
        if not results:
            break
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ]
    return seen


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("loop", [chat_loop, responses_loop, messages_loop])
async def test_a_loop_of_tool_calls_is_one_conversation(
    tmp_path: Path, loop: Any, rewrite: str
) -> None:
    async with served_baton(tmp_path, [ScriptedWorker(agent, SMALL)]) as served:
        async with served.client() as client:
            seen = await loop(client, REWRITES[rewrite])
        assert len(seen) == STEPS + 1
        assert len(set(seen)) == 1
        (kept,) = await served.baton.store.conversations()
        assert (kept.turns, kept.title) == (2 * (STEPS + 1), "Do it.")


FORMS = {
    "bare": '{"name": "shell", "parameters": {"command": "ls N", "cwd": "/tmp"}}',
    "fenced": 'So:\n```json\n{"name": "shell", "arguments": {"command": "ls N"}}\n```',
    "a function": "<function=shell>\n<parameter=command>\nls N\n</parameter>\n</function>",
    "two": '<tool_call>[{"name": "shell", "arguments": {"command": "a N"}}]</tool_call>',
}


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_call_in_any_form_continues_in_its_entry(
    tmp_path: Path, form: str, choice: str
) -> None:
    def written(request: Request) -> Iterable[Chunk]:
        done = sum("<tool_response>" in message.text for message in request.messages)
        yield Text("All is done." if done == STEPS else FORMS[form].replace("N", str(done)))
        yield Usage(10, 5, Finish.STOP)

    async with served_baton(tmp_path, [ScriptedWorker(written, SMALL)]) as served:
        async with served.client() as client:
            seen = await chat_loop(client, REWRITES["in another order"], choice)
        assert (len(seen), len(set(seen))) == (STEPS + 1, 1)


async def ask(client: httpx.AsyncClient, *said: str, **headers: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]
    body = {"model": "baton/auto", "messages": messages}
    answer = await client.post("/chat/completions", json=body, headers=headers)
    found: dict[str, Any] = answer.json()
    return found


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def echo(request: Request) -> Iterable[Chunk]:
    yield Text(f"Answer {len(request.messages)} to {request.messages[-1].text[:20]}")
    yield Usage(1, 1, Finish.STOP)


async def test_a_chat_continues_in_its_entry_after_a_restart(tmp_path: Path) -> None:
    workers = [ScriptedWorker(echo, SMALL)]
    async with served_baton(tmp_path, workers) as served, served.client() as client:
        first = text_of(await ask(client, "Hello"))
    async with served_baton(tmp_path, [ScriptedWorker(echo, SMALL)]) as served:
        async with served.client() as client:
            await ask(client, "Hello", first, "And now?")
        (kept,) = await served.baton.store.conversations()
        assert kept.turns == 4


async def test_each_chat_continues_after_its_own_answer(tmp_path: Path) -> None:
    """Two chats that began alike are kept apart by what they were answered."""
    count = 0

    def numbered(request: Request) -> Iterable[Chunk]:
        nonlocal count
        count += 1
        yield Text(f"Answer number {count}")
        yield Usage(1, 1, Finish.STOP)

    worker = ScriptedWorker(numbered, SMALL)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        first, second = [text_of(await ask(client, "Hello")) for _ in range(2)]
        await ask(client, "Hello", first, "Which number?")
        read = [message.text for message in worker.requests[-1].messages if message.text]
        assert read[-3:] == ["Hello", first, "Which number?"]
        await ask(client, "Hello", second, "Which number?")
        read = [message.text for message in worker.requests[-1].messages if message.text]
        assert read[-3:] == ["Hello", second, "Which number?"]
        assert len(await served.baton.store.conversations()) == 1


async def test_the_same_request_again_is_another_answer_in_its_entry(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served:
        async with served.client() as client, served.client(Grant.SPEND) as other:
            seen = [await ask(client, "Hello") for _ in range(3)]
            assert len({one["baton"]["conversation_id"] for one in seen}) == 1
            apart = [
                await ask(other, "Hello"),
                await ask(client, "Hello", **{"x-baton-private": "1"}),
                await ask(client, "Hello "),
            ]
        (run, *_) = [one["baton"]["run_id"] for one in seen]
        record = await served.baton.store.runs.get(run)
        assert len(await served.baton.store.siblings(record.answer)) == 4
        ids = {one["baton"]["conversation_id"] for one in (*seen, *apart)}
        assert len(ids) == 3


@pytest.mark.parametrize("change", ["time", "program"])
async def test_what_another_says_or_later_is_an_entry_of_its_own(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        first = await ask(client, "Hello")
        if change == "time":
            monkeypatch.setattr(conversation_finder, "AGAIN_SECONDS", 0.0)
        headers = {"user-agent": "codex_cli_rs/1"} if change == "program" else {}
        again = await ask(client, "Hello", **headers)
        assert first["baton"]["conversation_id"] != again["baton"]["conversation_id"]


async def test_a_retry_after_the_client_left_is_in_the_same_entry(tmp_path: Path) -> None:
    def slow_once(request: Request) -> Iterable[Chunk | float]:
        yield Text("It begins")
        if len(served.runner.served) == 1:
            yield 30.0
        yield Text(" and ends.")
        yield Usage(1, 1, Finish.STOP)

    async with served_baton(tmp_path, [ScriptedWorker(slow_once, SMALL)]) as served:
        async with served.client() as client:
            asking = asyncio.create_task(ask(client, "Hello"))
            await wait_until(lambda: served.runner.served and served.runner.served[0].view.answer)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
            assert text_of(await ask(client, "Hello")) == "It begins and ends."
        (kept,) = await served.baton.store.conversations()
        thread = await served.baton.store.thread(kept.id)
        assert [turn.text for turn in thread] == ["Hello", "It begins and ends."]


async def test_a_worker_that_a_program_named_was_its_choice(tmp_path: Path) -> None:
    worker = ScriptedWorker(echo, SMALL)
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        body = {"model": "small", "messages": [{"role": "user", "content": "Hello"}]}
        said = (await client.post("/chat/completions", json=body)).json()
    assert said["baton"]["route"]["why"] == "The program chose Small."


async def test_programs_are_apart_until_the_user_writes(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served:
        store = served.baton.store
        own = await store.begin(Prompt("My own"), ConversationPosition(), SMALL.privacy)
        async with served.client() as client:
            agent = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
            answer = await ask(client, "<system-reminder>x</system-reminder>\nFix the bug", **agent)
        program = answer["baton"]["conversation_id"]
        (found,) = await store.conversations(of_programs=True)
        assert (found.id, found.program, found.title) == (program, "Claude Code", "Fix the bug")
        assert [one.id for one in await store.conversations(of_programs=False)] == [
            own.conversation
        ]
        assert await store.latest() == own.conversation
        assert [one.id for one in await store.runs.recent_conversations(9)] == [own.conversation]
        assert await store.runs.recent_prompts() == ["My own"]
        assert (await store.find("1")).id == own.conversation
        assert (await store.find("fix the")).id == program
        assert {hit.program for hit in await store.search("bug fix")} == {"Claude Code"}

        await store.begin(Prompt("Mine now"), ConversationPosition(program), SMALL.privacy)
        assert await store.conversations(of_programs=True) == []
        assert await store.latest() == program


async def test_an_export_keeps_whose_conversation_it_is(tmp_path: Path) -> None:
    async with served_baton(tmp_path / "a") as served, served.client() as client:
        await ask(client, "Hello", **{"user-agent": "opencode/1.18.33"})
        exported = await served.baton.store.archive.export()
    async with served_baton(tmp_path / "b") as served:
        await served.baton.store.archive.import_(exported)
        (found,) = await served.baton.store.conversations(of_programs=True)
        assert found.program == "opencode"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (["Hi <b>"], "Hi <b>"),
        (
            ["<environment_context>\n<cwd>/x</cwd>\n</environment_context>\n\nSort the list"],
            "Sort the list",
        ),
        (
            ["<environment_context>x</environment_context>", "Ready.", "Sort the list"],
            "Sort the list",
        ),
        (
            ['<tool_response>\n{"name": "ls"}\n</tool_response>', "Fine.", "Now the next"],
            "Now the next",
        ),
        (["<system-reminder>only this</system-reminder>"], "Untitled"),
    ],
)
async def test_an_entry_is_named_by_the_first_words_of_the_user(
    tmp_path: Path, said: list[str], title: str
) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        await ask(client, *said)
        (kept,) = await served.baton.store.conversations()
        assert kept.title == title


async def test_what_the_worker_reads_is_whole(tmp_path: Path) -> None:
    worker = ScriptedWorker(card=SMALL)
    wrapped = "<system-reminder>Use tabs.</system-reminder>\nWrite a loop"
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        await ask(client, wrapped)
    assert [m.text for m in worker.requests[-1].messages if m.role is Role.USER] == [wrapped]
