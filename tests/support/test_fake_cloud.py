"""The tests' own cloud: its dialects are genuine, its bills right, its faults real."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.money import BilledTokens, Price, Rates
from support.cloud_answer import tokens_of
from support.cloud_faults import UNCLEAR
from support.fake_cloud import BASES, REFUSED, Cloud, CloudBehaviour, Fault, Reply

pytestmark = pytest.mark.sampled(0.34)

# A prompt's token costs 1 micro-dollar, an answer's 4, a cached one 0.1, a written one 1.25.
PRICE = Price(Rates(10**9, 4 * 10**9, 10**8, 1_250_000_000))
PRICES = {"": PRICE}
SAID = "Say something — briefly."
WHOLE = Reply().text

CHAT = ("openai", "openrouter", "mistral", "deepseek", "groq", "xai", "ollama", "server")
DIALECTS = ("openai", "responses", "anthropic", "gemini")


def request_parts(
    cloud: Cloud, kind: str, cap: int | None = None, stream: bool = True
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return address, body and headers with which that provider is asked."""
    body: dict[str, Any]
    messages = [{"role": "user", "content": SAID}]
    if kind == "anthropic":
        body = {"model": "kit-1", "messages": messages, "stream": stream, "max_tokens": cap or 500}
        return f"{cloud.base(kind)}/v1/messages", body, {"x-api-key": "sk-canary"}
    if kind == "gemini":
        body = {"contents": [{"role": "user", "parts": [{"text": SAID}]}]}
        if cap:
            body["generationConfig"] = {"maxOutputTokens": cap}
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{cloud.base(kind)}/models/kit-1:{verb}", body, {"x-goog-api-key": "sk-canary"}
    auth = {"authorization": "Bearer sk-canary"}
    body = {"model": "kit-1", "stream": stream}
    if kind == "responses":
        body |= {"input": messages} | ({"max_output_tokens": cap} if cap else {})
        return f"{cloud.base('openai')}/responses", body, auth
    body |= {"messages": messages, "stream_options": {"include_usage": True}}
    body |= {"max_tokens": cap} if cap else {}
    return f"{cloud.base(kind)}/chat/completions", body, auth


def ask(cloud: Cloud, kind: str, cap: int | None = None, stream: bool = True) -> httpx.Response:
    address, body, headers = request_parts(cloud, kind, cap, stream)
    return httpx.post(address, json=body, headers=headers, timeout=10, verify=False)


def events(answer: httpx.Response) -> list[Any]:
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def text_of(event: Any) -> str:
    """Return the text in an event of any dialect."""
    match event:
        case {"choices": [{"delta": {"content": str(text)}}]}:
            return text
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text
        case {"type": "content_block_delta", "delta": {"text": str(text)}}:
            return text
        case {"candidates": [{"content": {"parts": [{"text": str(text)}]}}]}:
            return text
    return ""


@pytest.mark.parametrize("kind", [*CHAT, "responses", "anthropic", "gemini"])
def test_the_whole_text_comes_and_its_bill_follows_the_price(kind: str) -> None:
    with Cloud(prices=PRICES, reply=Reply(reasoning=7, cached=3)) as cloud:
        answer = ask(cloud, kind)
        cloud.quiet()
    assert "".join(map(text_of, events(answer))) == WHOLE
    (bill,) = cloud.bills
    assert bill.ended
    assert bill.tokens_out == len(tokens_of(Reply())) + 7
    assert bill.tokens_in <= len(SAID.encode()) + 32
    assert cloud.billed == PRICE.cost(BilledTokens(bill.tokens_in, bill.tokens_out, cached=3))
    (received,) = cloud.calls
    assert received.key == "sk-canary"
    assert received.provider == ("openai" if kind == "responses" else kind)
    assert SAID in json.dumps(received.json, ensure_ascii=False)


@pytest.mark.parametrize("kind", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
def test_the_cap_is_kept_and_named_as_the_reason(kind: str, stream: bool) -> None:
    with Cloud(prices=PRICES, reply=Reply(tokens=300, reasoning=3)) as cloud:
        answer = ask(cloud, kind, cap=12, stream=stream)
        cloud.quiet()
    assert cloud.bills[0].tokens_out == 12
    assert cloud.bills[0].reasoning == 3
    named = {"openai": '"length"', "responses": "max_output_tokens", "anthropic": '"max_tokens"'}
    assert named.get(kind, '"MAX_TOKENS"') in answer.text


def test_each_provider_counts_in_its_own_way() -> None:
    with Cloud(prices=PRICES, reply=Reply(tokens=10, reasoning=4, cached=2, written=1)) as cloud:
        last = {kind: events(ask(cloud, kind))[-2:] for kind in (*CHAT, "responses", "anthropic")}
        gemini = events(ask(cloud, "gemini"))[-1]["usageMetadata"]
        cloud.quiet()
    prompt = cloud.bills[0].tokens_in
    assert {(b.tokens_in, b.tokens_out, b.reasoning) for b in cloud.bills} == {(prompt, 14, 4)}

    usage = {kind: found[0].get("usage") for kind, found in last.items()}
    assert usage["openai"]["completion_tokens"] == 14
    assert usage["openai"]["completion_tokens_details"]["reasoning_tokens"] == 4
    assert usage["openai"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert usage["xai"]["completion_tokens"] == 10
    assert usage["xai"]["total_tokens"] == prompt + 14
    assert usage["xai"]["cost_in_usd_ticks"] == cloud.bills[5].nanos * 10
    assert usage["deepseek"]["prompt_cache_hit_tokens"] == 2
    assert usage["deepseek"]["prompt_cache_miss_tokens"] == prompt - 2
    assert usage["openrouter"]["cost"] == cloud.bills[1].nanos / 1e9
    assert [b.cache_written for b in cloud.bills if b.cache_written] == [1, 1]
    assert usage["openrouter"]["prompt_tokens_details"]["cache_write_tokens"] == 1
    assert usage["anthropic"]["input_tokens"] == prompt - 3
    assert usage["anthropic"]["cache_read_input_tokens"] == 2
    assert usage["anthropic"]["cache_creation_input_tokens"] == 1
    assert last["responses"][1]["response"]["usage"]["output_tokens"] == 14
    assert gemini["thoughtsTokenCount"] == 4
    assert gemini["candidatesTokenCount"] == 10
    assert gemini["cachedContentTokenCount"] == 2


def test_groq_counts_in_its_last_choice_too() -> None:
    with Cloud() as cloud:
        chunks = [e for e in events(ask(cloud, "groq")) if e != "[DONE]"]
    assert [c["x_groq"]["usage"]["completion_tokens"] for c in chunks if "x_groq" in c] == [
        len(tokens_of(Reply()))
    ]


@pytest.mark.parametrize("fault", sorted(set(REFUSED) - UNCLEAR))
@pytest.mark.parametrize("kind", DIALECTS)
def test_a_refusal_has_its_status_and_costs_nothing(fault: Fault, kind: str) -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(fault)
        answer = ask(cloud, kind)
        again = ask(cloud, kind)
        cloud.quiet()
    assert answer.status_code == REFUSED[fault]
    assert answer.json()["error"]["message"]
    assert ("sk-canary" in answer.text) == (fault is Fault.ECHO_KEY)
    assert (answer.headers.get("retry-after") == "7") == (fault is Fault.RATE_LIMITED)
    assert cloud.bills[0].nanos == 0
    assert again.status_code == 200
    assert cloud.posts == 2


def test_an_error_that_is_not_clear_may_cost_the_prompt() -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(Fault.BARE_ERROR)
        answer = ask(cloud, "openai")
        cloud.quiet()
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "text/html"
    assert cloud.bills[0].nanos > 0


CUTS = {
    Fault.CUT_AT_ONCE: 0,
    Fault.CUT_BEFORE_FIRST: 0,
    Fault.CUT_MIDWAY: len(tokens_of(Reply())) // 2,
    Fault.RESET_MIDWAY: len(tokens_of(Reply())) // 2,
    Fault.CUT_BEFORE_LAST: len(tokens_of(Reply())) - 1,
    Fault.CUT_BEFORE_END: len(tokens_of(Reply())),
    Fault.CUT_BEFORE_MARKER: len(tokens_of(Reply())),
}


@pytest.mark.parametrize("fault", CUTS)
@pytest.mark.parametrize("kind", DIALECTS)
def test_a_cut_is_seen_by_the_client_and_billed_as_far_as_it_came(fault: Fault, kind: str) -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(fault)
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            ask(cloud, kind)
        cloud.quiet()
    (bill,) = cloud.bills
    assert bill.tokens_out == CUTS[fault]
    assert bill.nanos > 0
    assert not bill.ended


def test_who_leaves_is_billed_for_what_was_written_or_for_the_whole_cap() -> None:
    for whole, most in ((False, 200), (True, 2000)):
        manner = CloudBehaviour(whole_cap=whole)
        with Cloud(prices=PRICES, reply=Reply(tokens=2000, rate=500), manner=manner) as cloud:
            address, body, headers = request_parts(cloud, "openai", cap=2000)
            with httpx.stream("POST", address, json=body, headers=headers, verify=False) as answer:
                next(answer.iter_lines())
            cloud.quiet()
        assert 0 < cloud.bills[0].tokens_out <= most
        assert (cloud.bills[0].tokens_out == 2000) == whole


def test_endless_continues_above_the_cap_until_the_client_leaves() -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(Fault.ENDLESS)
        address, body, headers = request_parts(cloud, "anthropic", cap=5)
        with httpx.stream("POST", address, json=body, headers=headers, verify=False) as answer:
            seen = 0
            for line in answer.iter_lines():
                seen += "content_block_delta" in line
                if seen == 60:
                    break
        cloud.quiet()
    assert cloud.bills[0].tokens_out >= 30


@pytest.mark.parametrize("fault", [Fault.STALL, Fault.SLOW_START])
def test_a_stall_ends_when_the_client_loses_patience(fault: Fault) -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(fault)
        address, body, headers = request_parts(cloud, "gemini")
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(address, json=body, headers=headers, timeout=0.2, verify=False)
        cloud.quiet()
    assert cloud.bills[0].nanos > 0


@pytest.mark.parametrize("fault", [Fault.SPLIT_BYTES, Fault.GZIP])
@pytest.mark.parametrize("kind", DIALECTS)
def test_odd_ways_of_sending_change_nothing(fault: Fault, kind: str) -> None:
    with Cloud(prices=PRICES) as cloud:
        plain = ask(cloud, kind)
        cloud.next(fault)
        answer = ask(cloud, kind)
    assert answer.text == plain.text
    assert (answer.headers.get("content-encoding") == "gzip") == (fault is Fault.GZIP)


async def test_chunks_end_inside_a_character() -> None:
    with Cloud() as cloud:
        cloud.next(Fault.SPLIT_BYTES)
        address, body, headers = request_parts(cloud, "openai")
        async with (
            httpx.AsyncClient(verify=False) as client,
            client.stream("POST", address, json=body, headers=headers) as answer,
        ):
            parts = [part async for part in answer.aiter_raw()]
    assert {len(part) for part in parts} == {1}


@pytest.mark.parametrize("kind", [*CHAT, "responses", "anthropic", "gemini"])
def test_usage_can_be_missing_or_absurd(kind: str) -> None:
    with Cloud(prices=PRICES, reply=Reply(tokens=3)) as cloud:
        cloud.next(Fault.NO_USAGE, Fault.NEGATIVE_USAGE, Fault.TEXT_USAGE, Fault.HUGE_USAGE)
        none, negative, words, huge = (ask(cloud, kind) for _ in range(4))
        cloud.next(Fault.ABOVE_CAP)
        above = ask(cloud, kind, cap=50)
        cloud.quiet()
    assert "okens" not in none.text.replace("max_tokens", "") or "null" in none.text
    assert ": -4" in negative.text
    assert '"about 3"' in words.text
    assert f"{10**30 + 3}" in huge.text
    assert ": 1001" in above.text
    assert [bill.tokens_out for bill in cloud.bills] == [3, 3, 3, 3, 1001]


@pytest.mark.parametrize("kind", DIALECTS)
def test_errors_in_mid_stream_and_pages_instead_of_answers(kind: str) -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(Fault.ERROR_IN_STREAM, Fault.ECHO_IN_STREAM, Fault.MALFORMED)
        cloud.next(Fault.CUT_POLITELY, Fault.HTML, Fault.EMPTY)
        error, echo, malformed, polite, page, empty = (ask(cloud, kind) for _ in range(6))
        cloud.quiet()
    assert "Overloaded in mid-stream" in error.text
    assert "sk-canary" in echo.text
    assert 'content": "bro\n' in malformed.text
    half = "".join(tokens_of(Reply())[: len(tokens_of(Reply())) // 2])
    assert "".join(map(text_of, events(polite))) == half
    assert page.headers["content-type"] == "text/html"
    assert empty.text == ""
    assert [bill.nanos > 0 for bill in cloud.bills] == [True, True, True, True, False, True]


def test_a_redirect_leads_to_a_place_that_remembers() -> None:
    with Cloud(prices=PRICES) as cloud:
        cloud.next(Fault.REDIRECT, Fault.REDIRECT)
        assert ask(cloud, "openai").status_code == 307
        assert not cloud.trapped
        address, body, headers = request_parts(cloud, "openai")
        with pytest.raises(httpx.HTTPError):
            httpx.post(
                address, json=body, headers=headers, follow_redirects=True, timeout=20, verify=False
            )
    assert cloud.billed == 0
    assert b"chat/completions" in cloud.trapped[0]


def test_a_huge_header_is_more_than_a_client_reads() -> None:
    with Cloud() as cloud:
        cloud.next(Fault.HUGE_HEADER)
        with pytest.raises(httpx.RemoteProtocolError):
            ask(cloud, "openai")


def test_engines_can_be_detected() -> None:
    with Cloud(models=("qwen3:4b", "gpt-oss:120b-cloud")) as cloud:
        models = httpx.get(f"{cloud.base('ollama')}/models", verify=False).json()
        tags = httpx.get(f"{cloud.url}/api/tags", verify=False).json()
        version = httpx.get(f"{cloud.url}/api/version", verify=False).json()
        assert httpx.get(f"{cloud.url}/other", verify=False).status_code == 404
    assert [row["id"] for row in models["data"]] == ["qwen3:4b", "gpt-oss:120b-cloud"]
    assert tags["models"][1]["name"] == "gpt-oss:120b-cloud"
    assert version["version"]
    assert cloud.posts == 0


def test_a_request_that_cannot_be_read_is_refused() -> None:
    with Cloud() as cloud:
        with pytest.raises(httpx.HTTPError):
            httpx.post(
                f"{cloud.base('openai')}/chat/completions", content=b"{", timeout=20, verify=False
            )
        with pytest.raises(AssertionError, match="crashed"):
            cloud.quiet()


async def test_many_at_once_over_kept_connections() -> None:
    async with (
        Cloud(prices=PRICES, reply=Reply(tokens=40)) as cloud,
        httpx.AsyncClient(verify=False) as client,
    ):
        address, body, headers = request_parts(cloud, "openai")

        async def twice() -> list[str]:
            return [(await client.post(address, json=body, headers=headers)).text for _ in range(2)]

        texts = await asyncio.gather(*(twice() for _ in range(16)))
        await asyncio.to_thread(cloud.quiet)
    assert len({text for pair in texts for text in pair}) == 1
    assert cloud.posts == len(cloud.bills) == 32
    assert cloud.billed == 32 * cloud.bills[0].nanos


def test_one_in_a_process_of_its_own(tmp_path: Path) -> None:
    port, bills = tmp_path / "port", tmp_path / "bills"
    command = [sys.executable, "-P", "-m", "support.fake_cloud", "--port-file", str(port)]
    command += ["--bill-file", str(bills), "--tokens", "5", "--usd-per-million", "2"]
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(here), str(here.parent / "app")])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as process:
        try:
            while not port.exists():
                assert process.poll() is None
            base = f"http://127.0.0.1:{port.read_text()}{BASES['openai']}"
            body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
            assert (
                httpx.post(f"{base}/chat/completions", json=body, verify=False).status_code == 200
            )
            while len(bills.read_text().splitlines()) < 2:
                assert process.poll() is None
        finally:
            process.terminate()
    received, bill = map(json.loads, bills.read_text().splitlines())
    assert received["kind"] == "received"
    assert bill["nanos"] == (bill["tokens_in"] + 5) * 2000


async def test_openai_s_own_client_understands_it() -> None:
    import openai

    async with Cloud(prices=PRICES, reply=Reply(reasoning=2, cached=1)) as cloud:
        client = openai.AsyncOpenAI(api_key="sk-canary", base_url=cloud.base("openai"))
        said, usage = "", None
        async for chunk in await client.chat.completions.create(
            model="kit-1",
            messages=[{"role": "user", "content": SAID}],
            stream=True,
            stream_options={"include_usage": True},
        ):
            said += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
        assert said == WHOLE
        assert usage is not None
        assert usage.completion_tokens == len(tokens_of(Reply())) + 2

        said, response = "", None
        async for event in await client.responses.create(model="kit-1", input=SAID, stream=True):
            if event.type == "response.output_text.delta":
                said += event.delta
            elif event.type == "response.completed":
                response = event.response
        assert response is not None
        assert said == response.output_text == WHOLE
        assert response.usage is not None
        assert response.usage.output_tokens_details.reasoning_tokens == 2
        await client.close()
        await asyncio.to_thread(cloud.quiet)
        assert cloud.bills[1].tokens_out == response.usage.output_tokens


LITELLM = """
import asyncio, json, sys
import litellm
async def main():
    for model, base in json.loads(sys.argv[1]).items():
        said, usage = "", None
        async for chunk in await litellm.acompletion(
            model=model, api_base=base, api_key="sk-canary", stream=True, max_tokens=100,
            messages=[{"role": "user", "content": "Hi"}], stream_options={"include_usage": True},
            num_retries=0, max_retries=0,
        ):
            said += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = getattr(chunk, "usage", None) or usage
        print(json.dumps([model, said, usage.prompt_tokens, usage.completion_tokens]))
asyncio.run(main())
"""


@pytest.mark.long
def test_litellm_understands_it() -> None:
    with Cloud(prices=PRICES, reply=Reply(tokens=20)) as cloud:
        bases = {f"{name}/kit-1": cloud.base(name) for name in CHAT[:6]}
        bases["anthropic/claude-sonnet-4-5"] = cloud.base("anthropic")
        bases["gemini/gemini-2.5-flash"] = cloud.base("gemini")
        settings = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run(
            [sys.executable, "-P", "-c", LITELLM, json.dumps(bases)],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        cloud.quiet()
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(rows) == len(bases) == cloud.posts
    text = "".join(tokens_of(Reply(tokens=20)))
    for (_, said, tokens_in, tokens_out), bill in zip(rows, cloud.bills, strict=True):
        assert (said, tokens_in, tokens_out) == (text, bill.tokens_in, bill.tokens_out)
