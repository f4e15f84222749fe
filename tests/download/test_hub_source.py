"""Models from a hub, through the real child process, with a hub on loopback that misbehaves."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baton.core.catalogue_types import ModelOffer, Source
from baton.core.errors import (
    BatonError,
    ConfigError,
    ModelFileError,
    SecretMissing,
    WorkerUnavailable,
)
from baton.download import HubSource
from baton.download.messages import Progress
from baton.ipc import supervisor
from support.fake_hub import LOOP, Fault, Hub
from support.gguf_writer import Tensor, facts, header

pytestmark = pytest.mark.sampled(0.5)

TOKEN = "hf_aVerySecretToken"
MIB = 1 << 20


def model(words: int = 10, weights: int = 4096) -> bytes:
    """Return a model's file; each word of its vocabulary makes the header 27 bytes longer."""
    named = {"general.name": "Tiny", "tokenizer.ggml.tokens": ["a word of the model"] * words}
    tensors = [Tensor("token_embd.weight", (64, weights // 256))]
    data = bytes(range(251)) * (weights // 251 + 1)
    return header({**facts(block_count=2), **named}, tensors) + data[:weights]


SMALL = model()


def big(megabytes: int = 6) -> bytes:
    return model(weights=megabytes * MIB)


def environ(hub: Hub, home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), **hub.environ, "HF_HUB_DOWNLOAD_TIMEOUT": "2", **more}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        hub.tokens.add(TOKEN)
        yield hub


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def shared(hub: Hub, home: Path) -> Iterator[HubSource]:
    """One child for the tests that don't harm it."""
    hub_source = HubSource(environ=environ(hub, home, HF_TOKEN=TOKEN))
    yield hub_source
    asyncio.run(hub_source.aclose())
    assert list(home.iterdir()) == [], "nothing is written into the home"


@pytest.fixture
def hub_source(hub: Hub, shared: HubSource) -> Iterator[HubSource]:
    hub.clear_faults()
    hub.log.clear()
    yield shared
    hub.clear_faults()
    assert not hub.leaked(TOKEN)


@pytest.fixture
async def own(hub: Hub, tmp_path: Path) -> AsyncGenerator[HubSource]:
    """A child of the test's own, which it may kill."""
    hub.clear_faults()
    hub.log.clear()
    hub_source = HubSource(environ=environ(hub, tmp_path, HF_TOKEN=TOKEN))
    yield hub_source
    await hub_source.aclose()
    hub.clear_faults()
    assert not hub.leaked(TOKEN)


async def fetch_file(hub_source: HubSource, offer: ModelOffer, target: Path) -> str:
    """Fetch all of it, watching that it goes only forward; return its hash."""
    done, last = 0, ""
    async with aclosing(hub_source.fetch(offer, target)) as steps:
        async for step in steps:
            assert not last, "the hash is the last thing that comes"
            if isinstance(step, str):
                last = step
            else:
                assert done <= step.done <= step.total == offer.size
                done = step.done
    return last


async def wait_for_bytes(steps: AsyncGenerator[Progress | str], least: int) -> None:
    """Wait until so many bytes have come."""
    async for step in steps:
        assert isinstance(step, Progress)
        if step.done >= least:
            return
    raise AssertionError("it ended")


def add_repository(hub: Hub, repo: str, content: bytes) -> ModelOffer:
    """Add a repository with one file; return what a look at it would say, which loads a lot."""
    commit = hub.add(repo, {"m.gguf": content})
    return ModelOffer(Source(repo, "m.gguf", commit), len(content), hub.sha256(repo, "m.gguf"))


def partials(folder: Path) -> list[Path]:
    return list(folder.glob("*.partial"))


async def wait_for_end(hub_source: HubSource) -> None:
    for _ in range(6000):
        if hub_source.pid is None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the child is still there")


# What goes well


async def test_a_file_is_looked_up_and_pinned(hub: Hub, hub_source: HubSource) -> None:
    old = hub.add("a/pinned", {"m.gguf": SMALL, "README.md": b"-", "f/n.gguf": b"n"})
    source = Source("a/pinned", "m.gguf")
    offer = await hub_source.look_up(source)
    sha256 = hashlib.sha256(SMALL).hexdigest()
    pinned = replace(source, revision=old)
    assert offer == ModelOffer(pinned, len(SMALL), sha256, "apache-2.0", gated=False)
    new = hub.add("a/pinned", {"m.gguf": b"changed"}, licence="llama3", gated="auto")
    now = await hub_source.look_up(replace(source, revision="main"))
    assert (now.source.revision, now.size, now.licence, now.gated) == (new, 7, "llama3", True)
    before = await hub_source.look_up(pinned)
    assert (before.source, before.size, before.sha256) == (pinned, len(SMALL), sha256)
    assert {one.headers["authorization"] for one in hub.log} == {f"Bearer {TOKEN}"}
    assert {one.path.split("/")[2] for one in hub.log} == {"models"}, "no other question is asked"


async def test_the_files_of_a_repository(hub: Hub, hub_source: HubSource) -> None:
    parts = {f"big-0000{n}-of-00002.gguf": b"part" for n in (1, 2)}
    commit = hub.add(
        "a/files", {"q4/m.gguf": SMALL, "n.GGUF": b"n", "x.safetensors": b"x", **parts}
    )
    offers = await hub_source.list_files("a/files")
    assert {offer.source.file for offer in offers} == {
        "q4/m.gguf",
        "n.GGUF",
        "big-00001-of-00002.gguf",
    }
    assert {offer.source.revision for offer in offers} == {commit}
    for number in (1, 2):
        found = await hub_source.look_up(Source("a/files", f"big-0000{number}-of-00002.gguf"))
        assert (found.source.file, found.size) == ("big-00001-of-00002.gguf", 8)
        assert [part.size for part in found.parts] == [4, 4]
    hub.add("a/parts", {"big-00002-of-00002.gguf": b"part"})
    (lone,) = await hub_source.list_files("a/parts")
    assert [part.size for part in lone.parts] == [0, 4]
    hub.add("a/none", {"README.md": b"-"})
    assert await hub_source.list_files("a/none") == []
    with pytest.raises(ConfigError, match="no file") as caught:
        await hub_source.look_up(Source("a/files", "o.gguf"))
    assert "q4/m.gguf, n.GGUF" in caught.value.hint


async def test_a_header_comes_before_the_file(
    hub: Hub, hub_source: HubSource, tmp_path: Path
) -> None:
    long = model(words=400_000, weights=32 * MIB)
    (tmp_path / "long").write_bytes(long)
    hub.add(
        "a/header", {"m.gguf": SMALL, "long.gguf": tmp_path / "long", "no.gguf": b"no model" * 9}
    )
    read = await hub_source.read_header(await hub_source.look_up(Source("a/header", "m.gguf")))
    assert (read.architecture, read.name, read.layers) == ("llama", "Tiny", 2)
    assert read.kv_heads == (2, 2)
    read = await hub_source.read_header(await hub_source.look_up(Source("a/header", "long.gguf")))
    assert (read.vocabulary, read.size) == (400_000, len(long))
    assert hub.served("long.gguf") < 16 * MIB
    assert [one.start for one in hub.contents("long.gguf")][:2] == [0, 4 * MIB]
    with pytest.raises(ModelFileError, match=r"^no\.gguf isn't a model that can be used"):
        await hub_source.read_header(await hub_source.look_up(Source("a/header", "no.gguf")))


async def test_a_file_is_fetched(hub: Hub, hub_source: HubSource, tmp_path: Path) -> None:
    content = big()
    hub.add("a/fetch", {"m.gguf": content})
    offer = await hub_source.look_up(Source("a/fetch", "m.gguf"))
    target = tmp_path / "models" / "m" / "m.gguf"
    assert await fetch_file(hub_source, offer, target) == offer.sha256
    assert target.read_bytes() == content
    assert hub.served() == len(content)
    again = [step async for step in hub_source.hash_file(target)]
    assert again[-1] == offer.sha256
    copied = [step async for step in hub_source.copy(target, tmp_path / "copy.gguf", offer.sha256)]
    assert copied[-1] == offer.sha256
    assert (tmp_path / "copy.gguf").read_bytes() == content


async def test_an_address_serves_too(hub: Hub, hub_source: HubSource, tmp_path: Path) -> None:
    hub.add("a/url", {"m.gguf": SMALL})
    url = f"{hub.url}/a/url/resolve/main/m.gguf?download=true"
    offer = await hub_source.look_up(Source(url=url))
    sha256 = hashlib.sha256(SMALL).hexdigest()
    assert offer == ModelOffer(Source(file="m.gguf", url=url), len(SMALL), sha256)
    assert (await hub_source.read_header(offer)).name == "Tiny"
    plain = f"{hub.store}{next(one.path for one in hub.contents())}"  # no signature: refused
    with pytest.raises(SecretMissing, match="refuses access"):
        await hub_source.look_up(Source(file="m.gguf", url=plain))
    hub.fault(Fault(status=405), on="resolve", method="HEAD", times=0)
    assert await hub_source.look_up(Source(file="x.gguf", url=url)) == replace(
        offer, source=Source(file="x.gguf", url=url)
    )
    hub.clear_faults()
    hub.fault(Fault(status=200, headers={"Content-Type": "text/html"}), on="resolve")
    with pytest.raises(ConfigError, match="web page"):
        await hub_source.look_up(Source(url=url))
    hub.fault(Fault(200, {"ETag": f'"{"0" * 32}-3"', "X-Linked-Size": "9"}), on="resolve", times=2)
    with pytest.raises(ModelFileError, match="how large"):
        await hub_source.look_up(Source(url=url))


async def test_several_at_once(hub: Hub, hub_source: HubSource, tmp_path: Path) -> None:
    hub.add("a/many", {f"{n}.gguf": big(2) + bytes([n]) for n in range(3)})
    offers = await hub_source.list_files("a/many")
    hub.fault(Fault(rate=8 * MIB), times=0)
    hashes = await asyncio.gather(
        *(fetch_file(hub_source, offer, tmp_path / offer.source.file) for offer in offers),
        hub_source.look_up(offers[0].source),
    )
    assert hashes == [*(offer.sha256 for offer in offers), offers[0]]
    first, *others = hub.contents()
    assert all(one.headers["host"] == first.headers["host"] for one in others)


# What goes wrong


REFUSED: list[tuple[Fault, type[BatonError], str]] = [
    (Fault(429, retry_after=90), WorkerUnavailable, "in 90 seconds"),
    (Fault(429, retry_after="Fri, 31 Dec 2100 23:59:59 GMT"), WorkerUnavailable, "in 24 hours"),
    (Fault(429, {"RateLimit": '"api";r=0;t=55'}), WorkerUnavailable, "in 55 seconds"),
    (Fault(503, retry_after=600), WorkerUnavailable, "in 10 minutes"),
    (Fault(500), WorkerUnavailable, "HTTP 500"),
    (Fault(501), WorkerUnavailable, r"failed \(HTTP 501\)"),
    (Fault(404, code="RepoNotFound"), ConfigError, "no repository a/bad"),
    (Fault(404, code="RevisionNotFound"), ConfigError, "no such revision"),
    (Fault(404, code="EntryNotFound"), ConfigError, "has no a/bad"),
    (Fault(404), ConfigError, "has no a/bad"),
    (Fault(401, code="GatedRepo"), SecretMissing, r"Accept the licence on .*/a/bad,"),
    (Fault(403, code="GatedRepo", message=f"{TOKEN} isn't in"), SecretMissing, "set HF_TOKEN"),
    (Fault(403, message=f"{TOKEN}\x1b]0;x\x07 isn't in"), SecretMissing, "isn't in"),
    (Fault(401, message="Invalid credentials in Authorization header"), SecretMissing, "the token"),
    (Fault(401, message="Invalid username or password."), ConfigError, "no repository a/bad"),
    (Fault(418, message="teapot"), WorkerUnavailable, "HTTP 418.*teapot"),
    (Fault(302, location=LOOP), WorkerUnavailable, "in a circle"),
    (Fault(302, location="ftp://127.0.0.1/m.gguf"), WorkerUnavailable, "ftp://127.0.0.1"),
    (Fault(302, location="file:///etc/passwd"), WorkerUnavailable, "file://"),
    (Fault(302, location="http://example.org/m.gguf"), WorkerUnavailable, "http://example.org"),
]


async def expect_error(work: Any, error: type[BatonError], words: str) -> BatonError:
    """Return the error that comes, which is of that kind and says that."""
    with pytest.raises(error, match=words) as caught:
        await work
    message = str(caught.value)
    assert TOKEN not in message
    assert message.isprintable()
    assert caught.value.hint.endswith(".")
    return caught.value


@pytest.mark.parametrize(("fault", "error", "words"), REFUSED)
async def test_refusals(
    hub: Hub,
    hub_source: HubSource,
    tmp_path: Path,
    fault: Fault,
    error: type[BatonError],
    words: str,
) -> None:
    commit = hub.add("a/bad", {"m.gguf": SMALL})
    offer = ModelOffer(Source("a/bad", "m.gguf", commit), len(SMALL), hub.sha256("a/bad", "m.gguf"))
    hub.fault(fault, on="api", times=0)
    hub.fault(fault, on="resolve", times=0)
    looked, read = await asyncio.gather(
        expect_error(hub_source.look_up(offer.source), error, words),
        expect_error(hub_source.read_header(offer), error, words),
    )
    assert type(looked) is type(read)
    if fault.status < 500 and fault.status != 429:  # for those a transfer waits a while
        await expect_error(fetch_file(hub_source, offer, tmp_path / "m.gguf"), error, words)
    assert not (tmp_path / "m.gguf").exists()
    hub.clear_faults()
    assert await hub_source.look_up(offer.source) == replace(offer, licence="apache-2.0")


BRIEF = [
    (Fault(503), "resolve"),
    (Fault(429, retry_after=1), "resolve"),
    (Fault(403), "store"),
    (Fault(500), "store"),
    (Fault(cut=100), "store"),
    (Fault(cut=0, reset=True), "store"),
    (Fault(whole=True), "store"),
]


async def test_a_passing_fault_is_not_reported(hub: Hub, hub_source: HubSource) -> None:
    files = {f"{n}.gguf": SMALL for n in range(len(BRIEF))}
    hub.add("a/brief", {name: content + name.encode() for name, content in files.items()})
    offers = await hub_source.list_files("a/brief")
    for (fault, on), offer in zip(BRIEF, offers, strict=True):
        hub.fault(fault, on=on, file=offer.source.file)
    headers = await asyncio.gather(
        *(hub_source.read_header(replace(one, size=0)) for one in offers)
    )
    assert [header.name for header in headers] == ["Tiny"] * len(BRIEF)


SPOILED = [
    (Fault(shift=1), WorkerUnavailable, "another part"),
    (Fault(cut=100), WorkerUnavailable, "broke"),
    (Fault(length=-200), WorkerUnavailable, "broke"),
    (Fault(cut=10, stall=True), WorkerUnavailable, "The server stopped answering"),
    (Fault(wrong=0), ModelFileError, "isn't a model"),
    (Fault(416), ModelFileError, "has another size than the hub announced"),
]


async def test_spoiled_headers(hub: Hub, hub_source: HubSource) -> None:
    hub.add("a/spoiled", {f"{n}.gguf": SMALL + bytes([n]) for n in range(len(SPOILED))})
    offers = await hub_source.list_files("a/spoiled")
    for (fault, *_), offer in zip(SPOILED, offers, strict=True):
        hub.fault(fault, file=offer.source.file, times=0)
    await asyncio.gather(
        *(
            expect_error(hub_source.read_header(offer), error, words)
            for (_, error, words), offer in zip(SPOILED, offers, strict=True)
        )
    )


async def test_a_file_that_was_replaced(hub: Hub, hub_source: HubSource) -> None:
    commit = hub.add("a/replaced", {"m.gguf": SMALL})
    for size in (len(SMALL) - 1, len(SMALL) + 1):
        offer = ModelOffer(Source("a/replaced", "m.gguf", commit), size)
        await expect_error(
            hub_source.read_header(offer), ModelFileError, "has another size than the hub announced"
        )


async def test_wrong_bytes_are_not_a_file(hub: Hub, hub_source: HubSource, tmp_path: Path) -> None:
    hub.add("a/wrong", {"m.gguf": SMALL})
    offer = await hub_source.look_up(Source("a/wrong", "m.gguf"))
    hub.fault(Fault(wrong=len(SMALL) - 1))
    await expect_error(
        fetch_file(hub_source, offer, tmp_path / "m.gguf"), ModelFileError, "other contents"
    )
    assert not (tmp_path / "m.gguf").exists()


TRICKS = [
    Source("a/tricks", "../../m.gguf"),
    Source("a/tricks", "/etc/m.gguf"),
    Source("a/tricks", "..\\m.gguf"),
    Source("a/tricks", "C:m.gguf"),
    Source("a/tricks", "con.gguf"),
    Source("a/tricks", "x/NUL.txt.gguf"),
    Source("a/tricks", "m\x1b[2J.gguf"),
    Source("a/tricks", "m\n.gguf"),
    Source("a/tricks", ".hidden.gguf"),
    Source("a/tricks", "m.gguf/"),
    Source("a/tricks", "m.exe"),
    Source("a/tricks", "n" * 300 + ".gguf"),
    Source("../a", "m.gguf"),
    Source("a/../b", "m.gguf"),
    Source("a/b/c", "m.gguf"),
    Source("a/b?x=", "m.gguf"),
    Source("", "m.gguf"),
    Source("a/tricks", "m.gguf", "../../x"),
    Source("a/tricks", "m.gguf", "main?x"),
    Source(url="https://user:word@127.0.0.1/m.gguf"),
    Source(url="https:///m.gguf"),
    Source(url="https://127.0.0.1/%2e%2e%2f%2e%2e%2fm%00.gguf"),
    Source(url="https://127.0.0.1/"),
    Source(file="../m.gguf", url="https://127.0.0.1/m.gguf"),
]


@pytest.mark.parametrize("source", TRICKS)
async def test_tricks_with_names(
    hub: Hub, hub_source: HubSource, tmp_path: Path, source: Source
) -> None:
    offer = ModelOffer(source, 9, "0" * 64)
    await expect_error(hub_source.look_up(source), ConfigError, "can't be|isn't an address")
    await expect_error(hub_source.read_header(offer), ConfigError, "can't be|isn't an address")
    await expect_error(
        fetch_file(hub_source, offer, tmp_path / "m.gguf"), ConfigError, "can't be|isn't an address"
    )
    assert hub.log == []


async def test_tricks_of_the_hub(hub: Hub, hub_source: HubSource) -> None:
    names = [trick.file for trick in TRICKS[:12]]
    hub.add("a/tricks", {**dict.fromkeys(names, b"x"), "m.gguf": SMALL})
    assert [offer.source.file for offer in await hub_source.list_files("a/tricks")] == ["m.gguf"]


# The environment


ENVIRONMENTS: list[tuple[dict[str, str], type[BatonError], str]] = [
    ({"HF_HUB_OFFLINE": "1"}, ConfigError, "HF_HUB_OFFLINE is set"),
    ({"HF_ENDPOINT": "nowhere"}, ConfigError, "HF_ENDPOINT isn't the address"),
    ({"HF_ENDPOINT": "http://127.0.0.1:1"}, WorkerUnavailable, "can't be reached"),
    ({"HF_ENDPOINT": "http://hub.example.org", "http_proxy": "http://127.0.0.1:1"},
     WorkerUnavailable, "can't be reached|proxy"),
    ({"HF_ENDPOINT": "http://hub.example.org", "http_proxy": "gopher://x"}, ConfigError, "proxy"),
    ({"HF_ENDPOINT": "http://hub.example.org", "http_proxy": "http://127.0.0.1:99999"},
     ConfigError, "proxy"),
    ({"SSL_CERT_FILE": "/none/such.pem"}, ConfigError, "SSL_CERT_FILE"),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("more", "error", "words"), ENVIRONMENTS)
async def test_environments_that_dont_work(
    hub: Hub, tmp_path: Path, more: dict[str, str], error: type[BatonError], words: str
) -> None:
    hub.log.clear()
    offer = ModelOffer(Source("a/b", "m.gguf", "0" * 40), 9, "0" * 64)
    hub_source = HubSource(environ=environ(hub, tmp_path, **more))
    try:
        await asyncio.gather(
            expect_error(hub_source.look_up(offer.source), error, words),
            expect_error(hub_source.read_header(offer), error, words),
        )
        if error is ConfigError:  # else a transfer tries for a while
            await expect_error(fetch_file(hub_source, offer, tmp_path / "m.gguf"), error, words)
    finally:
        await hub_source.aclose()
    assert hub.log == []


async def test_through_a_proxy(hub: Hub, tmp_path: Path) -> None:
    hub.clear_faults()
    hub.log.clear()
    hub.add("a/proxy", {"m.gguf": SMALL})
    there = {"HF_ENDPOINT": "http://hub.example.org", "http_proxy": hub.url, "NO_PROXY": "other"}
    hub_source = HubSource(environ=environ(hub, tmp_path, **there))
    try:
        offer = await hub_source.look_up(Source("a/proxy", "m.gguf"))
        assert offer.sha256 == hub.sha256("a/proxy", "m.gguf")
        # No outside address leads to what only this machine may reach.
        await expect_error(hub_source.read_header(offer), WorkerUnavailable, "not safe")
    finally:
        await hub_source.aclose()
    assert {one.headers["host"] for one in hub.log} == {"hub.example.org"}
    assert hub.contents() == []


async def test_gated_models_need_a_token(hub: Hub, tmp_path: Path) -> None:
    hub.clear_faults()
    hub.log.clear()
    hub.add("a/gated", {"m.gguf": SMALL}, gated="manual")
    home = tmp_path / "home"
    (home / "hf").mkdir(parents=True)
    (home / "hf" / "token").write_text("hf_member\n")
    hub.tokens.add("hf_member")
    hub_source = HubSource(environ=environ(hub, home, HF_HOME=str(home / "hf")))
    try:
        offer = await hub_source.look_up(Source("a/gated", "m.gguf"))
        assert offer.gated
        await expect_error(
            fetch_file(hub_source, offer, tmp_path / "m.gguf"),
            SecretMissing,
            "agreed to its licence",
        )
        hub.accepted.add("hf_member")
        assert await fetch_file(hub_source, offer, tmp_path / "m.gguf") == offer.sha256
    finally:
        await hub_source.aclose()
    assert not hub.leaked("hf_member")
    assert [path.name for path in home.rglob("*")] == ["hf", "token"]


# The child


@pytest.fixture
def _quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a child that died be started again sooner."""
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.1, 0.1, 0.1))


@pytest.mark.usefixtures("_quick_restarts")
async def test_a_killed_child_continues(hub: Hub, own: HubSource, tmp_path: Path) -> None:
    content = big()
    offer = add_repository(hub, "a/kill", content)
    hub.fault(Fault(cut=3 * MIB, stall=True))
    done, killed = 0, False
    async for step in own.fetch(offer, tmp_path / "m.gguf"):
        if isinstance(step, str):
            assert step == offer.sha256
            break
        assert step.done >= done
        done = step.done
        if done == 3 * MIB and not killed:
            killed = True
            os.kill(own.pid or 0, signal.SIGKILL)
    assert killed
    assert (tmp_path / "m.gguf").read_bytes() == content
    assert hub.served() <= len(content) + MIB
    assert partials(tmp_path) == []


@pytest.mark.usefixtures("_quick_restarts")
async def test_a_child_that_keeps_dying(hub: Hub, own: HubSource, tmp_path: Path) -> None:
    offer = add_repository(hub, "a/dies", big())
    hub.fault(Fault(cut=MIB, stall=True), times=0)

    async def fetch() -> None:
        kills = 0
        async for step in own.fetch(offer, tmp_path / "m.gguf"):
            assert isinstance(step, Progress)
            if step.done >= MIB * (kills + 1):
                kills += 1
                os.kill(own.pid or 0, signal.SIGKILL)

    error = await expect_error(fetch(), WorkerUnavailable, "failed 2 times")
    assert "kept" in error.message
    [partial] = partials(tmp_path)
    assert partial.stat().st_size >= 2 * MIB


async def test_closing_early_keeps_what_came(hub: Hub, own: HubSource, tmp_path: Path) -> None:
    content = big()
    offer = add_repository(hub, "a/close", content)
    hub.fault(Fault(cut=4 * MIB, stall=True))
    async with aclosing(own.fetch(offer, tmp_path / "m.gguf")) as steps:
        await wait_for_bytes(steps, 4 * MIB)
    pid = own.pid
    assert (tmp_path / f"{offer.sha256}.partial").stat().st_size == 4 * MIB
    assert not (tmp_path / "m.gguf").exists()
    assert await fetch_file(own, offer, tmp_path / "m.gguf") == offer.sha256
    assert own.pid == pid, "no process had to be killed"
    assert hub.served() == len(content)


async def test_when_it_is_closed_it_is_over(
    hub: Hub, hub_source: HubSource, tmp_path: Path
) -> None:
    hub.add("a/over", {"m.gguf": big(3)})
    offer = await hub_source.look_up(Source("a/over", "m.gguf"))
    hub.fault(Fault(rate=4 * MIB))
    async with aclosing(hub_source.fetch(offer, tmp_path / "m.gguf")) as steps:
        await wait_for_bytes(steps, MIB // 2)
    [partial] = partials(tmp_path)
    size = partial.stat().st_size
    await asyncio.to_thread(hub.quiet)  # it has noticed that the rest isn't read
    assert partial.stat().st_size == size < offer.size


async def test_everything_ends_and_can_continue(hub: Hub, own: HubSource, tmp_path: Path) -> None:
    content = big()
    offer = add_repository(hub, "a/end", content)
    hub.fault(Fault(cut=2 * MIB, stall=True))
    steps = own.fetch(offer, tmp_path / "m.gguf")
    await wait_for_bytes(steps, 2 * MIB)
    rest = asyncio.create_task(
        expect_error(wait_for_bytes(steps, len(content)), WorkerUnavailable, "stopped")
    )
    await asyncio.sleep(0)
    pid = own.pid or 0
    await own.aclose()
    await rest
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (tmp_path / f"{offer.sha256}.partial").stat().st_size == 2 * MIB
    assert await fetch_file(own, offer, tmp_path / "m.gguf") == offer.sha256
    assert hub.served() == len(content)


async def hash_files(hub_source: HubSource, *paths: Path) -> list[Progress | str]:
    """Read files through, one after the other."""
    return [step for path in paths async for step in hub_source.hash_file(path)]


async def test_a_file_that_is_read_when_all_ends_is_not_begun_again(
    own: HubSource, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    await hash_files(own, tmp_path / "file")
    pid = own.pid or 0
    os.kill(pid, signal.SIGSTOP)
    reading = asyncio.create_task(hash_files(own, tmp_path / "file"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(own.aclose())
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    await closing
    await expect_error(reading, WorkerUnavailable, "stopped")
    assert own.pid is None, "nothing else would end it"


async def test_what_would_follow_a_file_that_was_just_read_is_not_begun(
    own: HubSource, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    await hash_files(own, tmp_path / "file")
    reading = asyncio.create_task(hash_files(own, tmp_path / "file", tmp_path / "file"))
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251  (the answer is here, and it wasn't read)
    await own.aclose()
    await expect_error(reading, WorkerUnavailable, "stopped")
    assert own.pid is None, "nothing else would end it"


async def test_an_idle_child_ends(hub: Hub, tmp_path: Path) -> None:
    hub.clear_faults()
    (tmp_path / "file").write_bytes(b"abc")
    hub_source = HubSource(environ=environ(hub, tmp_path), idle=0.05)
    assert hub_source.pid is None, "nothing is started before it is needed"
    for _ in range(2):
        steps = [step async for step in hub_source.hash_file(tmp_path / "file")]
        assert steps[-1] == hashlib.sha256(b"abc").hexdigest()
        await wait_for_end(hub_source)
    await hub_source.aclose()


async def test_one_that_is_stopped_while_it_asks(hub: Hub, hub_source: HubSource) -> None:
    hub.add("a/stop", {"m.gguf": SMALL})
    hub.fault(Fault(cut=0, stall=True), on="api")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await hub_source.list_files("a/stop")
    assert len(await hub_source.list_files("a/stop")) == 1
