"""`baton trace`: what was offered, what left, what it cost, and how to see the bytes."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace

from baton.cli.trace import span_lines, trace_text, why_object
from baton.core import events as ev
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.messages import Finish, Prompt, Purpose
from baton.core.money import NANO
from baton.core.plan_types import Plan, Step, single_step_plan
from baton.core.ports import NEW
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import find_paths
from support.command_line import Call
from support.sample_ledger import BODY, bill
from support.stored_runs import BEGUN, EVENTS, record, store_run


def trace_of(*events: ev.Event) -> str:
    return trace_text(RunRecord("beef", "c0ffee", "p", "a", "finished", 0.0, events))


def call_event(cost: int, held: int, confirmed: bool = True) -> ev.Called:
    return ev.Called(
        at=1.0,
        step=1,
        worker="gpt",
        purpose=Purpose.STEP,
        tokens_in=10,
        tokens_out=2,
        cached=0,
        context=0,
        cost=cost,
        confirmed=confirmed,
        seconds=0.5,
        first_token=0.1,
        loading=0.0,
        finish=Finish.STOP if confirmed else None,
        held=held,
        call="abc123",
    )


def test_a_call_says_how_long_its_text_was_expected_to_get() -> None:
    call = call_event(NANO // 500, NANO // 100)
    assert "wrote 2 (at most 1,640 expected)," in trace_of(replace(call, expected_tokens=1640))
    assert "wrote 2, 0.50 s in all" in trace_of(call)


def test_an_offer_says_what_would_leave_and_what_was_decided() -> None:
    offer = ev.Offered(
        "gpt", "You chose it.", NANO // 100, 1834, "2 mail addresses", ev.Decision.SENT, at=0.1
    )
    assert (
        "gpt was approved to plan for at most $0.01. The reason to ask it: You chose it."
        " 1,834 bytes of text, hidden: 2 mail addresses." in trace_of(offer)
    )
    refused = ev.Offered(
        "gpt", "it was cut", 2 * NANO, 5, "", ev.Decision.CEILING, "The ceiling is used up.", at=0.1
    )
    line = "gpt was not asked to plan: the ceiling is used up; it could have cost $2.00."
    assert line in trace_of(refused)
    kept = ev.Offered("lab", "it was cut", 0, 5, "", ev.Decision.KEPT, at=0.1)
    assert "lab was not asked, as you decided. The reason" in trace_of(replace(kept, step=1))


def test_what_help_was_worth_is_shown() -> None:
    why = "Likely 34 % better for $0.004; today you spend on gains above 20 %."
    worth = ev.Weighed("gpt", 0.34, 0.2, NANO // 250, True, why, at=0.1)
    assert f"gpt is worth asking: {why}" in trace_of(worth)
    assert "gpt is not asked: " in trace_of(replace(worth, ok=False))


def test_what_was_sent_is_shown() -> None:
    text = trace_of(
        ev.Planned(single_step_plan("gpt")), ev.Sent(1, "gpt", "api.openai.com", 1834, at=0.2)
    )
    assert "Step 1 sent 1,834 bytes to gpt (api.openai.com)." in text
    assert "Planning sent 9 bytes to" in trace_of(ev.Sent(0, "gpt", "api.openai.com", 9, at=0.2))


def test_what_a_call_cost_is_shown_and_how_sure_that_is() -> None:
    assert "held $0.11, charged $0.01" in trace_of(call_event(NANO // 100, 11 * NANO // 100))
    cut = trace_of(call_event(11 * NANO // 100, 11 * NANO // 100, confirmed=False))
    assert "ended early or without a plausible count, held $0.11, charged $0.11, unconfirmed" in cut
    assert "(`baton budget release abc123`)" in cut
    assert "charged nothing" in trace_of(call_event(0, NANO, confirmed=False))
    local = trace_of(call_event(0, 0))
    assert "$" not in local
    assert "charged" not in local


def test_what_left_can_be_looked_at(call: Call) -> None:
    async def run_prompt() -> str:
        store = Store(find_paths().database)
        ledger = Ledger(find_paths().ledger)
        begun = await store.begin(Prompt("Hello"), NEW, Label.CLOUD)
        for run in ("another", begun.run):
            held = await ledger.hold(bill(run))
            await ledger.sent(held.call, "api.openai.com", BODY)
            await ledger.leave(held.call)
        await store.append(begun.run, ev.Sent(1, "gpt", "api.openai.com", len(BODY), at=0.1))
        await store.append(begun.run, ev.Cancelled(at=0.2))
        await ledger.aclose()
        await store.aclose()
        return begun.run

    run = asyncio.run(run_prompt())
    shown = call("trace", run).out
    assert f"Step 1 sent {len(BODY)} bytes to gpt (api.openai.com)." in shown
    assert "`baton egress show N` with N = 2" in shown
    assert json.loads(call("trace", run, "--json").out)["egress"] == [2]
    assert json.loads(call("egress", "show", "2", "--json").out)["run_id"] == run


def test_the_steps_are_a_tree_with_all_that_is_known_of_them() -> None:
    text = trace_text(record(*EVENTS))
    tree = text.split("\n\n")[1]
    numbers = re.findall(r"^([│ ]*)[┬├└]─+ (\d)", tree, re.MULTILINE)
    # 3 builds on 1 and 2, so its stem begins where theirs do; 4 is below 3.
    assert [(len(indent) // 3, n) for indent, n in numbers] == [
        (0, "1"),
        (0, "2"),
        (0, "3"),
        (2, "4"),
    ]
    for part in (
        "1 small, local, done in 0.5 s, 100 tokens read, 20 written",
        "2 large, local, cut at its cap in 1.2 s",
        "math, difficulty 4 of 5, optional, in place of small; sees the prompt",
        "Step 2 was checked, sums: wrong (2 + 2 is 4).",
        "3 gpt, cloud (api.openai.com), done in 0.7 s, answers",
        "written, $0.002",
        "sees result 1, result 2",
        "4 large, local, failed in 0.1 s",
        "reasoning, difficulty 3 of 5, checks; sees the prompt, result 3",
        "large died.",
    ):
        assert part in " ".join(tree.replace("│", " ").split()), part
    for part in ("large is asked for a plan", "Step 2 is tried again", "(strategy conductor)"):
        assert part in text


def test_outside_text_in_a_tree_stays_on_its_line() -> None:
    plan = Plan((Step("small", "a\n└─ 9 forged", ("prompt",)), Step("small", "b")), (2,))
    text = trace_text(record(ev.Planned(plan)))
    assert "\n└─ 9" not in text


def test_a_deep_plan_stays_on_the_screen() -> None:
    steps = [Step("small", "Begin.", ("prompt",))]
    steps += [Step("small", "Go on with it. " * 9, (str(n),)) for n in range(1, 32)]
    text = trace_text(record(ev.Planned(Plan(tuple(steps), (32,)))))
    tree = text.split("\n\n")[1]
    assert max(map(len, tree.splitlines())) < 80
    assert "32 small, waiting, answers" in tree


def test_an_interrupted_run_says_how_it_continues(call: Call) -> None:
    run = store_run(*BEGUN)
    shown = call("trace", run).out
    assert "· lost\n" in shown
    assert f"Interrupted after step 2 of 4; `baton resume {run}` continues it." in shown
    assert f"`baton resume {run}`" not in trace_text(record(*EVENTS))
    conversation = json.loads(call("history", "ls", "--json").out)["conversations"][0]["id"]
    assert (
        f"Interrupted after step 2 of 4; `baton resume {run}` continues it."
        in call("history", "show", conversation).out
    )


def test_the_full_texts_are_shown_on_request(call: Call) -> None:
    run = store_run(*EVENTS)
    assert "Facts: one." not in call("trace", run).out
    shown = call("trace", run, "--texts").out
    assert "--- step 1, small ---\nFacts: one.\n\n--- step 2, large ---\n2 + 2 = 5" in shown
    plain = (ev.Planned(single_step_plan("small")), ev.Finished(at=0.1))
    assert "--- step 1, small ---\nIt is\n" in call("trace", store_run(*plain), "--texts").out
    nothing = call("trace", store_run(ev.Cancelled(at=0.1)), "--texts").out
    assert "No step wrote anything." in nothing


def test_forms_exclude_each_other(call: Call) -> None:
    store_run(*EVENTS)
    assert call("trace", "--json", "--otel").code == 2


def test_the_spans_are_otlp_and_always_the_same(call: Call) -> None:
    run = store_run(*EVENTS)
    printed = call("trace", run, "--otel").out
    assert call("trace", run, "--otel").out == printed
    found = [json.loads(line)["resourceSpans"][0] for line in printed.splitlines()]
    assert found[0]["resource"]["attributes"] == [
        {"key": "service.name", "value": {"stringValue": "baton"}}
    ]
    shown = [one["scopeSpans"][0]["spans"][0] for one in found]
    assert len(shown) == 1 + 4 + 4  # the run, its steps, its calls
    root, *others = shown
    ids = {span["spanId"] for span in shown}
    assert len(ids) == len(shown)
    assert {span["traceId"] for span in shown} == {root["traceId"]}
    for span in shown:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert root["startTimeUnixNano"] <= span["startTimeUnixNano"]
        assert span["endTimeUnixNano"] <= root["endTimeUnixNano"]
    assert root["parentSpanId"] == ""
    assert all(span["parentSpanId"] in ids for span in others)


def attributes(span: dict[str, object]) -> dict[str, object]:
    pairs = span["attributes"]
    assert isinstance(pairs, list)
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}


def test_spans_say_what_was_asked_what_it_took_and_what_failed() -> None:
    lines = map(json.loads, span_lines(record(*EVENTS)))
    shown = [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]
    by_name = {span["name"]: span for span in shown}
    assert by_name["invoke_workflow baton"]["startTimeUnixNano"] == "1700000000250000000"
    facts = attributes(by_name["chat gpt"])
    assert facts["gen_ai.operation.name"] == "chat"
    assert facts["gen_ai.request.model"] == "gpt"
    assert facts["gen_ai.usage.input_tokens"] == "100"
    assert facts["gen_ai.usage.output_tokens"] == "20"
    assert facts["server.address"] == "api.openai.com"
    assert by_name["chat gpt"]["parentSpanId"] == by_name["invoke_agent gpt"]["spanId"]
    assert by_name["chat gpt"]["kind"] == 3
    failed = [span for span in shown if span["name"] == "invoke_agent large"][-1]
    assert failed["status"] == {"code": 2, "message": "large died."}
    assert attributes(failed)["error.type"] == "WorkerUnavailable"
    names = {name for span in shown for name in attributes(span)}
    assert {n for n in names if not n.startswith("gen_ai.")} <= {
        "error.type", "server.address", "server.port",
    }  # fmt: skip
    # What workers wrote, and what was asked, isn't exported.
    assert "Facts: one." not in json.dumps(shown)


def test_an_address_with_a_port_is_two_attributes() -> None:
    sent = ev.Sent(3, "gpt", "10.0.0.9:8000", 900, at=2.4)
    events = [sent if isinstance(event, ev.Sent) else event for event in EVENTS]
    shown = [json.loads(line)["resourceSpans"][0] for line in span_lines(record(*events))]
    [span] = [
        span
        for one in shown
        for span in one["scopeSpans"][0]["spans"]
        if span["name"] == "chat gpt"
    ]
    facts = attributes(span)
    assert (facts["server.address"], facts["server.port"]) == ("10.0.0.9", "8000")


def test_a_lost_run_is_a_failed_span() -> None:
    [line, *_] = span_lines(record(*BEGUN, status="lost"))
    span = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert span["status"]["code"] == 2


def test_events_that_name_steps_which_are_not_there_are_nothing() -> None:
    imported = record(*BEGUN, ev.StepFinished(99, Finish.STOP, at=1.0), ev.Finished(at=3.0))
    assert why_object(imported)["steps"] == []


def test_what_help_was_worth_is_an_object() -> None:
    weighed = ev.Weighed("gpt", 0.34, 0.2, NANO // 250, True, "It is likely better.", at=0.5)
    assert why_object(record(*BEGUN, weighed))["weighed"] == [
        {
            "worker": "gpt",
            "gain": 0.34,
            "bar": 0.2,
            "cost_usd": "0.004",
            "ok": True,
            "why": "It is likely better.",
        }
    ]


def test_the_last_run_is_meant_unless_one_is_named(call: Call) -> None:
    assert call("why").code == 2
    first = store_run(*EVENTS)
    store_run(ev.Routed("local", "It is short.", {}, "hybrid"), ev.Finished(at=0.1))
    assert "It is short." in call("why").out
    assert "three things" in call("why", first[:8]).out
    shown = json.loads(call("why", first, "--json").out)
    assert shown["route"]["strategy"] == "conductor"
    assert shown["steps"][2] == {
        "step": 3,
        "worker": "gpt",
        "destination": "api.openai.com",
        "status": "done",
    }
    assert shown["reasons"] == call("why", first).out.splitlines()
