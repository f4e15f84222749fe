"""`baton egress`: what left can be seen byte for byte, and taken to an audit."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from pathlib import Path

from baton.money import Ledger
from baton.platform.paths import find_paths
from support.command_line import Call, Process
from support.sample_ledger import BODY, SampleCalls, bill

BINARY = b"\xff\x00"


def test_nothing_left_yet(call: Call) -> None:
    assert call("egress", "ls").err == "Nothing ever left.\n"
    assert json.loads(call("egress", "list", "--json").out)["requests"] == []
    assert (call("egress", "export").code, call("egress", "export").out) == (0, "")
    assert call("egress", "show", "1").code == 2


def test_what_left_is_listed_newest_first(call: Call, spent: SampleCalls) -> None:
    lines = call("egress", "ls").out.splitlines()
    assert [line.split()[0] for line in lines] == ["no.", "2", "1"]
    assert "api.openai.com" in lines[1]
    assert "$0.11 unconfirmed" in lines[1]
    assert lines[2].endswith("$0.01 charged")
    assert "Grüße" not in call("egress", "ls", "--json").out
    assert len(json.loads(call("egress", "ls", "-n", "1", "--json").out)["requests"]) == 1
    [one] = json.loads(call("egress", "ls", "--run", "aaaa", "--json").out)["requests"]
    assert (one["run_id"], one["size"], one["status"]) == ("aaaa1111", len(BODY), "settled")
    assert call("egress", "ls", "--run", "cccc").err == "Run cccc sent nothing.\n"


def test_one_request_is_shown_as_it_was_sent(
    call: Call, spent: SampleCalls, process: Process
) -> None:
    shown = call("egress", "show", "1").out
    assert BODY.decode() in shown
    assert hashlib.sha256(BODY).hexdigest() in shown
    assert "Cost:    $0.01" in shown
    assert json.loads(call("egress", "show", "1", "--json").out)["body"] == BODY.decode()
    for number, body in (("1", BODY), ("2", BINARY)):
        assert process("egress", "show", number, "--raw").stdout == body


def test_the_export_holds_everything_oldest_first(
    call: Call, spent: SampleCalls, tmp_path: Path
) -> None:
    out = call("egress", "export").out
    first, second = map(json.loads, out.splitlines())
    assert (first["body"], first["encoding"]) == (BODY.decode(), "utf-8")
    assert (base64.b64decode(second["body"]), second["encoding"]) == (BINARY, "base64")
    for record, body in ((first, BODY), (second, BINARY)):
        assert record["sha256"] == hashlib.sha256(body).hexdigest()
        assert record["size"] == len(body)
        assert record["destination"] == "api.openai.com"
    assert (first["charged_usd"], second["status"]) == ("0.012", "unconfirmed")
    file = tmp_path / "audit.jsonl"
    done = call("egress", "export", "-o", str(file))
    assert (done.code, file.read_text("utf-8")) == (0, out)
    assert file.stat().st_mode & 0o777 == 0o600
    assert call("egress", "export", "-o", str(file)).code == 2
    assert call("egress", "export", "-o", str(file), "--force").code == 0
    assert call("egress", "export", "-o", str(tmp_path / "no" / "x")).code == 1


def test_what_was_not_kept_is_reported(call: Call, home: Path) -> None:
    async def send() -> None:
        ledger = Ledger(find_paths().ledger)
        held = await ledger.hold(bill("r", keep=False))
        await ledger.sent(held.call, "api.openai.com", BODY)
        await ledger.leave(held.call)
        await ledger.aclose()

    asyncio.run(send())
    assert "was removed, or was not to be kept" in call("egress", "show", "1").out
    assert call("egress", "show", "1", "--raw").code == 2
    record = json.loads(call("egress", "export").out)
    assert (record["body"], record["encoding"], record["size"]) == (None, None, len(BODY))


def test_removing_a_conversation_takes_along_what_it_sent(call: Call, home: Path) -> None:
    from baton.core.labels import Label
    from baton.core.messages import Prompt
    from baton.core.ports import NEW
    from baton.history import Store

    async def talk() -> str:
        store = Store(find_paths().database)
        ledger = Ledger(find_paths().ledger)
        begun = await store.begin(Prompt("Hello"), NEW, Label.CLOUD)
        for run in (begun.run, "another"):
            held = await ledger.hold(bill(run))
            await ledger.sent(held.call, "api.openai.com", BODY)
            await ledger.leave(held.call)
        await ledger.aclose()
        await store.aclose()
        return begun.conversation

    conversation = asyncio.run(talk())
    assert call("history", "rm", "-y", conversation).code == 0
    first, second = map(json.loads, call("egress", "export").out.splitlines())
    assert (first["body"], first["sha256"]) == (None, hashlib.sha256(BODY).hexdigest())
    assert second["body"] == BODY.decode()
    left = b"".join(path.read_bytes() for path in find_paths().ledger.parent.glob("ledger.db*"))
    assert left.count("Grüße".encode()) == 1
