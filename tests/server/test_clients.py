"""The official clients of OpenAI and Anthropic use Baton as if it were one model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from baton.core.messages import Card, Chunk, Finish, Request, Text
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import Served, saying, served_baton, wait_until

HELLO: Any = [{"role": "user", "content": "Hello there"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather at a place.",
        "strict": True,
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Lisbon"}}\n</tool_call>'


def anthropic_client(served: Served) -> anthropic.AsyncAnthropic:
    base = served.url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(base_url=base, api_key=served.token, max_retries=0)


async def test_chat_completions_whole_and_streamed(tmp_path: Path) -> None:
    worker = saying("Hello", " ", "you.")
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        whole = await client.chat.completions.create(model="baton/auto", messages=HELLO)
        assert whole.choices[0].message.content == "Hello you."
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (12, 3)
        extra = whole.model_extra or {}
        assert extra["baton"]["workers"] == ["small"]
        assert whole.usage.model_extra == {
            "cost_usd": "0",
            "local_tokens": 15,
            "cloud_tokens": 0,
        }

        stream = await client.chat.completions.create(
            model="baton/auto",
            messages=HELLO,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert "".join(filter(None, texts)) == "Hello you."
        assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.total_tokens == 15


async def test_responses_whole_and_streamed(tmp_path: Path) -> None:
    async with (
        served_baton(tmp_path, [saying("Hello", ".")]) as served,
        served.openai_client() as client,
    ):
        whole = await client.responses.create(model="baton/auto", input="Hello there")
        assert whole.output_text == "Hello."
        assert whole.status == "completed"

        kinds, numbers, text = [], [], ""
        async for event in await client.responses.create(
            model="baton/auto", input="Hello there", stream=True
        ):
            kinds.append(event.type)
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                text += event.delta
        assert text == "Hello."
        assert numbers == list(range(len(numbers)))
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"

        following = await client.responses.create(
            model="baton/auto", input="And now?", previous_response_id=whole.id
        )
        first = await served.baton.store.runs.get(whole.id.removeprefix("resp_"))
        second = await served.baton.store.runs.get(following.id.removeprefix("resp_"))
        assert first.conversation == second.conversation


async def test_the_responses_helper_of_the_client_gathers_a_stream(tmp_path: Path) -> None:
    async with (
        served_baton(tmp_path, [saying("Hello", ".")]) as served,
        served.openai_client() as client,
    ):
        async with client.responses.stream(model="baton/auto", input="Hello") as stream:
            final = await stream.get_final_response()
        assert final.output_text == "Hello."


async def test_messages_whole_and_streamed(tmp_path: Path) -> None:
    worker = saying("Hello", ".")
    async with served_baton(tmp_path, [worker]) as served, anthropic_client(served) as client:
        whole = await client.messages.create(
            model="baton/auto", max_tokens=50, system="Be brief.", messages=HELLO
        )
        assert [block.text for block in whole.content if block.type == "text"] == ["Hello."]
        assert whole.stop_reason == "end_turn"
        assert worker.requests[-1].messages[0].text == "Be brief."
        assert worker.requests[-1].max_tokens == 50

        async with client.messages.stream(
            model="baton/auto", max_tokens=50, messages=HELLO
        ) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
        assert text == "Hello."
        assert final.usage.output_tokens == 2


async def test_tools_are_called_in_every_protocol(tmp_path: Path) -> None:
    worker = saying("I look. ", CALL[:14], CALL[14:40], CALL[40:])
    async with served_baton(tmp_path, [worker]) as served:
        async with served.openai_client() as client:
            whole = await client.chat.completions.create(
                model="baton/auto", messages=HELLO, tools=[WEATHER]
            )
            message = whole.choices[0].message
            assert message.content == "I look."
            assert whole.choices[0].finish_reason == "tool_calls"
            assert message.tool_calls is not None
            call: Any = message.tool_calls[0]
            assert call.function.name == "weather"
            assert json.loads(call.function.arguments) == {"place": "Lisbon"}
            assert '"weather"' in worker.requests[-1].messages[0].text

            async with client.chat.completions.stream(
                model="baton/auto", messages=HELLO, tools=[WEATHER]
            ) as stream:
                final: Any = await stream.get_final_completion()
            assert final.choices[0].message.tool_calls[0].function.name == "weather"
            assert CALL not in (final.choices[0].message.content or "")

            function: Any = {"type": "function", **WEATHER["function"]}
            answered: Any = await client.responses.create(
                model="baton/auto", input="Hello", tools=[function]
            )
            assert [item.type for item in answered.output] == ["message", "function_call"]
            async with client.responses.stream(
                model="baton/auto", input="Hello", tools=[function]
            ) as events:
                streamed: Any = await events.get_final_response()
            assert json.loads(streamed.output[1].arguments) == {"place": "Lisbon"}

        async with anthropic_client(served) as client:
            tool: Any = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
            said: Any = await client.messages.create(
                model="baton/auto", max_tokens=50, messages=HELLO, tools=[tool]
            )
            assert said.content[1].input == {"place": "Lisbon"}
            async with client.messages.stream(
                model="baton/auto", max_tokens=50, messages=HELLO, tools=[tool]
            ) as stream2:
                last: Any = await stream2.get_final_message()
            assert last.content[1].input == {"place": "Lisbon"}
            assert last.stop_reason == "tool_use"


async def test_what_a_tool_gave_comes_back_to_the_worker(tmp_path: Path) -> None:
    worker = saying("It is sunny.")
    function = {"name": "weather", "arguments": '{"place": "Lisbon"}'}
    messages: Any = [
        *HELLO,
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        await client.chat.completions.create(model="baton/auto", messages=messages, tools=[WEATHER])
    *_, called, result = worker.requests[-1].messages
    assert called.text == CALL
    assert '"content": "sunny"' in result.text


async def test_a_tool_that_must_be_called_is_asked_for_by_its_form(tmp_path: Path) -> None:
    worker = saying('{"name": "weather", ', '"arguments": {"place": "Oslo"}}')
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        whole: Any = await client.chat.completions.create(
            model="baton/auto", messages=HELLO, tools=[WEATHER], tool_choice="required"
        )
    shape = worker.requests[-1].shape
    assert shape is not None
    assert json.loads(shape.schema)["properties"]["name"] == {"const": "weather"}
    assert whole.choices[0].message.content is None
    arguments = whole.choices[0].message.tool_calls[0].function.arguments
    assert json.loads(arguments) == {"place": "Oslo"}


async def test_wishes_reach_the_worker(tmp_path: Path) -> None:
    worker = saying("{}")
    schema: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        await client.chat.completions.create(
            model="small",
            messages=[{"role": "developer", "content": "Obey."}, *HELLO],
            max_completion_tokens=7,
            temperature=0.5,
            top_p=0.9,
            seed=-1,
            stop=["END"],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        )
    (request,) = worker.requests
    assert [message.text for message in request.messages] == ["Obey.", "Hello there"]
    assert (request.max_tokens, request.temperature, request.top_p) == (7, 0.5, 0.9)
    assert (request.seed, request.stop) == (2**32 - 1, ("END",))
    assert request.shape is not None
    assert json.loads(request.shape.schema) == schema


async def test_a_cut_answer_says_so(tmp_path: Path) -> None:
    async with (
        served_baton(tmp_path, [saying("Half", finish=Finish.LENGTH)]) as served,
        served.openai_client() as client,
    ):
        chat = await client.chat.completions.create(model="baton/auto", messages=HELLO)
        assert chat.choices[0].finish_reason == "length"
        answered = await client.responses.create(model="baton/auto", input="Hello")
        assert answered.status == "incomplete"


async def test_a_conversation_continues_where_it_was(tmp_path: Path) -> None:
    worker = saying("Fine.")
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        first = await client.chat.completions.create(model="baton/auto", messages=HELLO)
        answer = first.choices[0].message.content
        messages: Any = [
            *HELLO,
            {"role": "assistant", "content": answer},
            {"role": "user", "content": "And more?"},
        ]
        await client.chat.completions.create(model="baton/auto", messages=messages)
        conversations = await served.baton.store.conversations()
        assert [conversation.turns for conversation in conversations] == [4]

        other: Any = [{"role": "user", "content": "Another beginning"}, *messages[1:]]
        await client.chat.completions.create(model="baton/auto", messages=other)
        assert len(await served.baton.store.conversations()) == 2
        said = [message.text for message in worker.requests[-1].messages[1:]]
        assert said == ["Another beginning", "Fine.", "And more?"]


async def test_what_is_not_to_be_stored_is_in_no_history(tmp_path: Path) -> None:
    async with served_baton(tmp_path, [saying("Fine.")]) as served:
        async with served.openai_client() as client:
            await client.chat.completions.create(model="baton/auto", messages=HELLO, store=False)
        assert await served.baton.store.conversations() == []


async def test_background_responses_are_asked_for_by_their_id(tmp_path: Path) -> None:
    def slow(request: Request) -> Iterable[Chunk | float]:
        yield Text("Half ")
        yield 0.3
        yield Text("whole.")

    worker = ScriptedWorker(slow, Card("small", "local", "Small", context=8192))
    async with served_baton(tmp_path, [worker]) as served, served.openai_client() as client:
        begun = await client.responses.create(model="baton/auto", input="Hello", background=True)
        assert begun.status == "in_progress"
        await wait_until(lambda: served.runner.served[0].is_over)
        now = await client.responses.retrieve(begun.id)
        assert now.output_text == "Half whole."

        stopped = await client.responses.create(model="baton/auto", input="Hello", background=True)
        assert (await client.responses.cancel(stopped.id)).status == "cancelled"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_nothing")


async def test_models_are_listed(tmp_path: Path) -> None:
    async with served_baton(tmp_path, [saying("Hi")]) as served:
        async with served.openai_client() as client:
            ids = [model.id async for model in client.models.list()]
            assert ids == ["baton/auto", "baton/local", "baton/mini", "baton/ultra", "small"]
            assert (await client.models.retrieve("baton/auto")).id == "baton/auto"
            with pytest.raises(openai.NotFoundError, match="Did you mean 'baton/auto'"):
                await client.chat.completions.create(model="baton/autos", messages=HELLO)
        async with anthropic_client(served) as claude:
            assert [model.id async for model in claude.models.list()] == ids


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"n": 2}, "'n' other than 1"),
        ({"logprobs": True}, "'logprobs' other than false"),
        ({"presence_penalty": 5}, "presence_penalty is a number from -2 to 2"),
        ({"temperature": 3}, "temperature is a number from 0 to 2"),
        ({"stop": [*"123456789"]}, "8 stop texts"),
        ({"max_tokens": 0}, "above 0"),
        ({"response_format": {"type": "xml"}}, "no response format 'xml'"),
        ({"tools": [{"type": "function"}]}, "A tool has no name"),
        ({"tool_choice": {"type": "function"}}, "names no function"),
    ],
)
async def test_what_cannot_be_kept_to_is_refused_by_name(
    tmp_path: Path, field: dict[str, Any], said: str
) -> None:
    async with served_baton(tmp_path, [saying("Hi")]) as served, served.openai_client() as client:
        with pytest.raises(openai.BadRequestError, match=said):
            await client.chat.completions.create(
                model="baton/auto", messages=HELLO, extra_body=field
            )
