"""What programs send besides the usual is placed, skipped or named: it never fails a turn.

The ids are those of the reports that each case comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anthropic
import pytest

from baton.core.messages import Chunk, Finish, Request, Text, Usage
from baton.server.access import Grant
from baton.server.request_messages import GO_ON, NOTHING
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import GPT, SMALL, Served, saying, served_baton

USER: Any = {"role": "user", "content": "What is 2+2?"}
PIXEL = "iVBORw0KGgo="
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
MESSAGES_IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
EDIT = {"name": "edit", "description": "Edit.", "parameters": {"type": "object"}}
HOSTED = [
    {"type": "web_search"},
    {"type": "image_generation"},
    {"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:9"},
    {"type": "local_shell"},
]
FUNCTION = {"type": "function", **EDIT}
NAMESPACE = {"type": "namespace", "name": "agents", "description": "", "tools": [FUNCTION]}
CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Patch."}
CALL = '<tool_call>\n{"name": "edit", "arguments": {"path": "a.py"}}\n</tool_call>'


async def post(served: Served, path: str, body: dict[str, Any], status: int = 200) -> Any:
    fields = {"model": "small", **body}
    if path == "/messages":
        fields = {"max_tokens": 50, **fields}
    async with served.client() as client:
        answer = await client.post(path, json=fields)
    assert answer.status_code == status, answer.text
    return answer.json()


def shown(worker: ScriptedWorker) -> list[tuple[str, str]]:
    """Return what the worker was shown last."""
    return [(message.role.value, message.text) for message in worker.requests[-1].messages]


def ignored(answer: dict[str, Any]) -> str:
    return " ".join(w["message"] for w in answer["baton"]["warnings"] if w["kind"] == "ignored")


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_system_message_stands_anywhere(path: str, place: int, tmp_path: Path) -> None:
    """F2, B01, B15."""
    worker = saying("4")
    messages: list[dict[str, str]] = [USER, {"role": "assistant", "content": "4"}]
    messages.insert(place, {"role": "system", "content": "Agents: none"})
    messages += [{"role": "developer", "content": "In capitals."}, USER]
    async with served_baton(tmp_path, [worker]) as served:
        name = "input" if path == "/responses" else "messages"
        await post(served, path, {name: [*messages, {"role": "system", "content": "Last."}]})
    assert shown(worker)[0] == ("system", "Agents: none\n\nIn capitals.\n\nLast.")
    assert [text for _, text in shown(worker)[1:]] == ["What is 2+2?", "4", "What is 2+2?"]


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_the_beginning_of_an_answer_is_continued(path: str, tmp_path: Path) -> None:
    """F18, B14."""
    worker = saying(" an apple.")
    said = [{"role": "user", "content": "Name it."}, {"role": "assistant", "content": "It is"}]
    async with served_baton(tmp_path, [worker]) as served:
        await post(served, path, {"input" if path == "/responses" else "messages": said})
    assert shown(worker)[1:] == [("user", "Name it."), ("assistant", "It is"), ("user", GO_ON)]


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_a_system_text_alone_is_what_is_asked(path: str, tmp_path: Path) -> None:
    """F18."""
    worker = saying("Yes.")
    said = [{"role": "system", "content": "Say yes."}]
    async with served_baton(tmp_path, [worker]) as served:
        await post(served, path, {"input" if path == "/responses" else "messages": said})
    assert shown(worker)[-1] == ("user", "Say yes.")


@pytest.mark.parametrize("said", [[], "", None, [{"role": "user", "content": ""}]])
async def test_an_empty_probe_is_answered(said: Any, tmp_path: Path) -> None:
    """B09: Codex asks so whether there is anybody."""
    worker = saying("Hm?")
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, "/responses", {"input": said, "max_output_tokens": 1})
    assert answer["status"] == "completed"
    assert shown(worker)[-1] == ("user", NOTHING)


@pytest.mark.parametrize("path", ["/chat/completions", "/messages"])
async def test_no_messages_at_all_are_refused(path: str, tmp_path: Path) -> None:
    """B11."""
    async with served_baton(tmp_path, [saying("4")]) as served:
        for is_streamed in (True, False):
            answer = await post(served, path, {"messages": [], "stream": is_streamed}, 400)
            assert "There are no messages." in answer["error"]["message"]


IMAGES: dict[str, tuple[str, list[Any]]] = {
    "chat: an earlier turn": (
        "/chat/completions",
        [
            {"role": "user", "content": [{"type": "text", "text": "Look"}, CHAT_IMAGE]},
            {"role": "assistant", "content": "I see."},
            USER,
        ],
    ),
    "chat: right before": (
        "/chat/completions",
        [{"role": "user", "content": [CHAT_IMAGE]}, USER],
    ),
    "chat: a tool's result": (
        "/chat/completions",
        [
            USER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "view", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [CHAT_IMAGE]},
        ],
    ),
    "messages: a tool's result": (
        "/messages",
        [
            USER,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "view", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [MESSAGES_IMAGE]}
                ],
            },
        ],
    ),
    "responses: a tool's result": (
        "/responses",
        [
            {"type": "message", **USER},
            {"type": "function_call", "call_id": "c1", "name": "view", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}],
            },
        ],
    ),
}


@pytest.mark.parametrize("case", IMAGES)
async def test_a_picture_is_replaced_by_a_note(case: str, tmp_path: Path) -> None:
    """F13, B07."""
    path, said = IMAGES[case]
    worker = saying("4")
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, path, {"input" if path == "/responses" else "messages": said})
    assert "An image stands here" in " ".join(text for _, text in shown(worker))
    assert "replaced by a note" in ignored(answer)


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_a_picture_that_is_asked_about_is_refused(path: str, tmp_path: Path) -> None:
    image = MESSAGES_IMAGE if path == "/messages" else CHAT_IMAGE
    said = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    async with served_baton(tmp_path, [saying("4")]) as served:
        name = "input" if path == "/responses" else "messages"
        answer = await post(served, path, {name: said}, 400)
    assert "workers read text" in answer["error"]["message"]


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_half_a_character_of_a_cut_text_is_a_mark(path: str, tmp_path: Path) -> None:
    """As JavaScript writes a text that was cut within an emoji, beside a whole one."""
    worker, field = saying("4"), "input" if path == "/responses" else "messages"
    said = [{"role": "user", "content": "\ud83d What is 2+2? 😀"}]
    async with served_baton(tmp_path, [worker]) as served, served.client() as client:
        body = json.dumps({"model": "small", "max_tokens": 50, "store": False, field: said})
        answer = await client.post(path, content=body)
    assert answer.status_code == 200, answer.text
    assert shown(worker)[-1] == ("user", "? What is 2+2? 😀")


async def test_unknown_items_and_parts_are_left_out(tmp_path: Path) -> None:
    """B08."""
    worker = saying("4")
    said = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "secret thought"}]},
        {"type": "reasoning", "encrypted_content": "gAAA", "summary": []},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "local_shell_call", "call_id": "l1", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "l1", "output": "a.py"},
        {
            "id": "m1",
            "status": "completed",
            "role": "assistant",
            "phase": "final",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        },
        {"type": "message", "role": "user", "content": [{"type": "unheard_of", "x": 1}, "2+2?"]},
    ]
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, "/responses", {"input": said})
    texts = " ".join(text for _, text in shown(worker))
    assert "a.py" in texts
    assert texts.endswith("2+2?")
    assert "secret" not in texts
    for named in ("item_reference", "web_search_call", "local_shell_call", "'unheard_of'"):
        assert named in ignored(answer)


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_fields_of_other_servers_are_named_and_ignored(path: str, tmp_path: Path) -> None:
    fields = {"think": True, "keep_alive": "5m", "options": {"num_ctx": 4096}, "foo": None}
    body = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    async with served_baton(tmp_path, [saying("4")]) as served:
        answer = await post(served, path, {**body, **fields})
        assert "'think', 'keep_alive', 'options' have no effect here." in ignored(answer)
        plain = await post(served, path, body)
        assert plain["baton"]["warnings"] == []


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (
            "/chat/completions",
            {"messages": [{"role": "Human", "content": {"type": "text", "text": "Hi"}}]},
        ),
        (
            "/chat/completions",
            {"messages": [USER, {"role": "tool", "tool_call_id": 1, "content": {"ok": 1}}]},
        ),
        ("/chat/completions", {"max_tokens": 100.0, "model": None}),
        ("/chat/completions", {"max_tokens": -1, "stream_options": {"include_usage": None}}),
        ("/chat/completions", {"max_tokens": 10**12, "response_format": {"type": None}}),
        ("/chat/completions", {"stop": ["", "a"], "functions": [], "function_call": "auto"}),
        ("/messages", {"system": {"type": "text", "text": "Be."}, "max_tokens": None}),
        ("/messages", {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]}),
        ("/messages", {"output_config": {"format": None}, "thread": None}),
        ("/responses", {"input": {"role": "user", "content": "Hi"}, "text": {"format": None}}),
        ("/responses", {"input": ["one", "two"], "conversation": None}),
    ],
)
async def test_what_is_written_a_little_otherwise_is_understood(
    path: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    body = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    async with served_baton(tmp_path, [saying("4")]) as served:
        await post(served, path, {**body, **fields})


@pytest.mark.parametrize(
    "field", [{"n": 2}, {"logprobs": True}, {"modalities": ["text", "audio"]}, {"top_logprobs": 3}]
)
async def test_what_would_change_the_answer_is_refused(
    field: dict[str, Any], tmp_path: Path
) -> None:
    async with served_baton(tmp_path, [saying("4")]) as served:
        answer = await post(served, "/chat/completions", {"messages": [USER], **field}, 400)
    assert " other than " in answer["error"]["message"]
    assert answer["error"]["param"] == next(iter(field))


SAMPLING = {
    "top_k": 7,
    "min_p": 0.2,
    "repetition_penalty": 1.2,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
}


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_wishes_for_sampling_reach_a_local_worker(path: str, tmp_path: Path) -> None:
    """F14."""
    here, there = saying("4"), saying("4", card=GPT)
    body = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    async with served_baton(tmp_path, [here, there]) as served:
        answer = await post(served, path, {**body, **SAMPLING, "logit_bias": {"5": 1}})
        wanted = {
            "repeat_penalty" if n == "repetition_penalty" else n: SAMPLING[n] for n in SAMPLING
        }
        assert here.requests[-1].sampling == wanted
        assert ignored(answer) == "'logit_bias' has no effect here."
        for wrong in ({"top_k": "many"}, {"min_p": 2}, {"presence_penalty": True}):
            await post(served, path, {**body, **wrong}, 400)


async def test_hosted_tools_are_left_out_and_those_of_a_namespace_offered(tmp_path: Path) -> None:
    """F3, B06."""
    worker = saying("Done. ", CALL)
    async with served_baton(tmp_path, [worker]) as served:
        tools = [*HOSTED, NAMESPACE, {"type": "function", "name": "view"}]
        answer = await post(served, "/responses", {"input": "Edit it.", "tools": tools})
        assert '"name": "edit"' in shown(worker)[0][1]
        [message, call] = answer["output"]
        assert (message["content"][0]["text"], call["name"]) == ("Done.", "edit")
        assert (call["type"], call["namespace"]) == ("function_call", "agents")
        for tool in HOSTED:
            assert repr(tool["type"]) in ignored(answer)
        await post(served, "/responses", {"input": "Hi", "tools": HOSTED})
        assert "<tools>" not in shown(worker)[0][1]
        typed = [{"type": "web_search_20250305", "name": "web_search"}, {"name": "edit"}]
        answer = await post(served, "/messages", {"messages": [USER], "tools": typed})
        assert "web_search_20250305" in ignored(answer)
        assert answer["content"][1]["name"] == "edit"


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
async def test_a_custom_tool_is_called_with_its_text(path: str, tmp_path: Path) -> None:
    written = json.dumps({"name": "apply_patch", "arguments": {"input": "*** Begin"}})
    worker = saying(f"<tool_call>{written}</tool_call>")
    is_chat = path == "/chat/completions"
    tool = {"type": "custom", "custom": CUSTOM} if is_chat else CUSTOM
    body = {"messages": [USER]} if is_chat else {"input": "Patch it."}
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, path, {**body, "tools": [tool]})
        if is_chat:
            [call] = answer["choices"][0]["message"]["tool_calls"]
            assert call["custom"] == {"name": "apply_patch", "input": "*** Begin"}
            return
        [call] = answer["output"]
        assert (call["type"], call["input"]) == ("custom_tool_call", "*** Begin")
        result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
        await post(served, path, {"input": [{"role": "user", "content": "Patch"}, call, result]})
        assert '{"name": "apply_patch", "content": "ok"}' in shown(worker)[-1][1]


async def test_functions_as_at_first_are_called_as_at_first(tmp_path: Path) -> None:
    """F24."""
    worker = saying(CALL)
    said = [
        USER,
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "edit", "arguments": "{}"},
        },
        {"role": "function", "name": "edit", "content": "done"},
    ]
    async with served_baton(tmp_path, [worker]) as served:
        body = {"messages": said, "functions": [EDIT], "function_call": "auto"}
        [choice] = (await post(served, "/chat/completions", body))["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"]["name"] == "edit"
    assert json.loads(choice["message"]["function_call"]["arguments"]) == {"path": "a.py"}
    assert '{"name": "edit", "content": "done"}' in shown(worker)[-1][1]


CHOICES: list[tuple[str, Any, bool, list[str]]] = [
    ("/chat/completions", "required", True, ["edit", "view"]),
    ("/chat/completions", {"type": "function", "function": {"name": "view"}}, True, ["view"]),
    (
        "/chat/completions",
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "edit"}}],
            },
        },
        False,
        ["edit"],
    ),
    (
        "/responses",
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "view"}, {"type": "web_search"}],
        },
        True,
        ["view"],
    ),
    ("/responses", {"type": "function", "name": "edit"}, True, ["edit"]),
    ("/responses", {"type": "web_search"}, False, ["edit", "view"]),
    ("/messages", {"type": "any"}, True, ["edit", "view"]),
    ("/messages", {"type": "tool", "name": "view"}, True, ["view"]),
    ("/messages", {"type": "auto", "disable_parallel_tool_use": True}, False, ["edit", "view"]),
]


@pytest.mark.parametrize(("path", "choice", "must", "names"), CHOICES)
async def test_a_choice_of_tools_is_kept_to(
    path: str, choice: Any, must: bool, names: list[str], tmp_path: Path
) -> None:
    worker = saying("No.")
    tools: list[dict[str, Any]] = [{"name": "edit"}, {"name": "view"}]
    if path == "/chat/completions":
        tools = [{"type": "function", "function": tool} for tool in tools]
    elif path == "/responses":
        tools = [{"type": "function", **tool} for tool in tools]
    body = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, path, {**body, "tools": tools, "tool_choice": choice})
    offered = [n for n in ("edit", "view") if f'"name": "{n}"' in shown(worker)[0][1]]
    assert offered == names
    assert (worker.requests[-1].shape is not None) is must
    assert ("A tool had to be called" in ignored(answer)) is must


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_one_call_at_a_time_where_that_is_asked_for(path: str, tmp_path: Path) -> None:
    """F27."""
    worker = saying(CALL, "\n", CALL)
    tools: Any = [FUNCTION]
    body: dict[str, Any] = {"input": "Hi", "parallel_tool_calls": False}
    if path != "/responses":
        body = {"messages": [USER], "parallel_tool_calls": False}
        tools = [{"type": "function", "function": EDIT}]
    if path == "/messages":
        tools = [{"name": "edit"}]
        body = {
            "messages": [USER],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        }
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, path, {**body, "tools": tools})
    assert json.dumps(answer).count("a.py") == 1


async def test_a_call_that_was_cut_is_named(tmp_path: Path) -> None:
    """F27."""
    worker = saying("I'll do it. ", '<tool_call>\n{"name": "ed', finish=Finish.LENGTH)
    async with served_baton(tmp_path, [worker]) as served:
        tools = [{"type": "function", "function": EDIT}]
        answer = await post(served, "/chat/completions", {"messages": [USER], "tools": tools})
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].strip() == "I'll do it."
    assert "A call of a tool was cut" in ignored(answer)


async def test_a_result_beside_an_earlier_response_has_its_tools_name(tmp_path: Path) -> None:
    """F22."""
    worker = saying(CALL)
    async with served_baton(tmp_path, [worker]) as served:
        first = await post(served, "/responses", {"input": "Edit it.", "tools": [FUNCTION]})
        [call] = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
        again = {"input": [result], "previous_response_id": first["id"], "tools": [FUNCTION]}
        await post(served, "/responses", again)
    assert '{"name": "edit", "content": "done"}' in shown(worker)[-1][1]


async def test_items_are_known_by_their_ids_again(tmp_path: Path) -> None:
    """Vercel's SDK refers to the items of earlier responses, restarts of the server included."""
    worker = saying("I'll edit it. ", CALL)
    async with served_baton(tmp_path, [worker]) as served:
        first = await post(served, "/responses", {"input": "Edit it.", "tools": [FUNCTION]})
    message, call = first["output"]
    references = [{"type": "item_reference", "id": one["id"]} for one in (message, call)]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
    worker = saying("Done.")
    async with served_baton(tmp_path, [worker]) as served:
        said = [{"role": "user", "content": "Edit it."}, *references, result]
        answer = await post(served, "/responses", {"input": said})
        assert [role for role, _ in shown(worker)[1:]] == ["user", "assistant", "user"]
        assert "I'll edit it." in shown(worker)[2][1]
        assert '"path": "a.py"' in shown(worker)[2][1]
        assert '{"name": "edit", "content": "done"}' in shown(worker)[3][1]
        assert ignored(answer) == ""
        unknown = {"type": "item_reference", "id": "msg_0123456789ab"}
        answer = await post(
            served, "/responses", {"input": [unknown, {"role": "user", "content": "Hi"}]}
        )
        assert "item_reference" in ignored(answer)
        async with served.client(Grant.SPEND) as other:  # another program's stays its own
            body = {"model": "small", "input": [*references, {"role": "user", "content": "Hi"}]}
            assert (await other.post("/responses", json=body)).status_code == 200
        assert "I'll edit it." not in " ".join(text for _, text in shown(worker))


async def test_instructions_of_an_earlier_response_are_not_carried_over(tmp_path: Path) -> None:
    """F25."""
    worker = saying("4")
    async with served_baton(tmp_path, [worker]) as served:
        body = {"input": "Hi", "instructions": "In capitals.", "metadata": {"a": "b"}}
        first = await post(served, "/responses", body)
        assert (first["instructions"], first["metadata"]) == ("In capitals.", {"a": "b"})
        await post(served, "/responses", {"input": "And?", "previous_response_id": first["id"]})
    assert "In capitals." not in " ".join(text for _, text in shown(worker))


async def test_the_form_of_an_answer_is_kept_to_in_messages_too(tmp_path: Path) -> None:
    """F7."""
    worker = saying('{"a": 1}')
    schema = {"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}}
    form = {"type": "json_schema", "schema": schema}
    async with served_baton(tmp_path, [worker]) as served:
        for field in (
            {"output_config": {"format": form, "effort": "low"}},
            {"output_format": form},
        ):
            answer = await post(served, "/messages", {"messages": [USER], **field})
            shape = worker.requests[-1].shape
            assert shape is not None
            assert json.loads(shape.schema) == schema
            assert "doesn't keep the answer to: minimum" in ignored(answer)
        wrong = {"output_config": {"format": {"type": "regex"}}}
        await post(served, "/messages", {"messages": [USER], **wrong}, 400)


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
@pytest.mark.parametrize("written", ["call", "object"])
async def test_beside_tools_an_answer_has_its_form_or_is_a_call(
    path: str, written: str, tmp_path: Path
) -> None:
    """Codex sends its tools and the schema of the answer with every request."""
    schema = {"type": "object", "properties": {"city": {"$ref": "#/$defs/c"}}, "$defs": {"c": {}}}
    said = {"call": {"name": "edit", "arguments": {"path": "a.py"}}, "object": {"city": "Oslo"}}
    worker = saying(json.dumps(said[written]))
    body: dict[str, Any] = {"messages": [USER]}
    form: Any = {"type": "json_schema", "schema": schema}
    if path == "/responses":
        body = {"input": "Hi", "tools": [FUNCTION], "text": {"format": {"name": "x", **form}}}
    elif path == "/messages":
        body |= {"tools": [{"name": "edit"}], "output_config": {"format": form}}
    else:
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body |= {"tools": [{"type": "function", "function": EDIT}], "response_format": form}
    async with served_baton(tmp_path, [worker]) as served:
        answer = json.dumps(await post(served, path, body))
    shape = worker.requests[-1].shape
    assert shape is not None
    kinds = json.loads(shape.schema)
    assert kinds["anyOf"][1]["properties"]["name"] == {"const": "edit"}
    assert kinds["$defs"]["answer"]["properties"]["city"] == {"$ref": "#/$defs/answer/$defs/c"}
    assert ("a.py" in answer) is (written == "call")
    assert ("Oslo" in answer) is (written == "object")


async def test_a_forced_tool_may_refer_to_its_own_definitions(tmp_path: Path) -> None:
    """F4."""
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    parameters = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place"}, "self": {"$ref": "#"}},
        "$defs": {"Place": place},
    }
    worker = saying('{"name": "go", "arguments": {"at": {"city": "Oslo"}}}')
    function = {"name": "go", "parameters": parameters}
    other = {"name": "stay", "parameters": {"type": "object"}}
    async with served_baton(tmp_path, [worker]) as served:
        tools = [{"type": "function", "function": one} for one in (function, other)]
        body = {"messages": [USER], "tools": tools, "tool_choice": "required"}
        [choice] = (await post(served, "/chat/completions", body))["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "go"
    shape = worker.requests[-1].shape
    assert shape is not None
    schema = json.loads(shape.schema)
    arguments = schema["anyOf"][0]["properties"]["arguments"]
    found: Any = schema
    for part in arguments["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    inner = found["properties"]["at"]["$ref"].removeprefix("#/").split("/")
    target: Any = schema
    for part in inner:
        target = target[part]
    assert target == place


async def test_a_thread_is_refused_in_a_way_that_the_client_understands(tmp_path: Path) -> None:
    """F21: Anthropic's tool runner continues without one."""

    @anthropic.beta_async_tool
    async def edit(path: str) -> str:
        """Edit a file."""
        return f"{path} edited"

    texts = iter([CALL, "It is done."])

    def script(request: Request) -> Iterable[Chunk]:
        yield Text(next(texts))
        yield Usage(12, 3, Finish.STOP)

    worker = ScriptedWorker(script, SMALL)
    async with served_baton(tmp_path, [worker]) as served:
        base = served.url.removesuffix("/v1")
        async with anthropic.AsyncAnthropic(base_url=base, api_key=served.token) as client:
            runner = client.beta.messages.tool_runner(
                max_tokens=100,
                messages=[USER],
                model="small",
                tools=[edit],
            )
            last = await runner.until_done()
    assert last.content[0].model_dump()["text"] == "It is done."
    assert "a.py edited" in shown(worker)[-1][1]


async def test_a_stop_text_is_said(tmp_path: Path) -> None:
    """F19, B05."""

    def script(request: Request) -> Iterable[Chunk]:
        yield Text("1, 2, 3, ")
        yield Usage(12, 3, Finish.STOP, stop="4")

    worker = ScriptedWorker(script, SMALL)
    async with served_baton(tmp_path, [worker]) as served:
        answer = await post(served, "/messages", {"messages": [USER], "stop_sequences": ["4"]})
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "4")


@pytest.mark.parametrize("path", ["/chat/completions", "/messages", "/responses"])
async def test_nothing_is_null_that_the_protocol_leaves_out(path: str, tmp_path: Path) -> None:
    """F6."""
    body = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    async with served_baton(tmp_path, [saying("4")]) as served:
        answer = await post(served, path, body)
    if path == "/messages":
        assert answer["content"] == [{"type": "text", "text": "4"}]
    nulls = {name for name, value in answer.items() if value is None}
    allowed = {
        "/chat/completions": set[str](),
        "/messages": {"stop_sequence"},
        "/responses": {
            *("error", "incomplete_details", "instructions", "max_output_tokens"),
            *("previous_response_id", "temperature", "top_p"),
        },
    }
    assert nulls <= allowed[path]


async def test_a_prompt_that_is_too_long_is_said_in_the_words_that_clients_know(
    tmp_path: Path,
) -> None:
    """F17, B22."""
    system, text = "Rules. " * 20_000, "What? "
    async with served_baton(tmp_path, [saying("4")]) as served:
        for is_streamed in (False, True):
            said = [{"role": "system", "content": system}, {"role": "user", "content": text}]
            body = {"messages": said, "stream": is_streamed}
            error = (await post(served, "/chat/completions", body, 400))["error"]
            assert error["code"] == "context_length_exceeded"
            assert "This model's maximum context length is 8192 tokens." in error["message"]
            assert "The largest part is the system text: 99 %" in error["message"]
            error = (await post(served, "/messages", body, 400))["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"].startswith("prompt is too long: ")
            assert "> 8192 maximum" in error["message"]
