"""Hubs and the environment give the fetcher invalid data: it believes none of it."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ipaddress
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.catalogue_types import Source
from baton.download.child import hub_client, hub_metadata
from baton.download.child.hub_metadata import HubMetadata
from baton.download.messages import REPLIES, ListFiles, LookUpSource, OfferReply, ReadHeader
from baton.gguf.split_files import is_sha256
from baton.ipc.messages import Failed, Message
from baton.ipc.parent_channel import Failure
from baton.ipc.process import Child, ChildProcess
from support.fake_hub import Fault, Hub
from support.gguf_writer import facts, header

SMALL = header(facts())
SOURCE = Source("a/b", "m.gguf")


class FetcherSession:
    """A fetcher, asked one thing after the other."""

    def __init__(self, hub: Hub, home: Path, **more: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self.child = Child(
            ChildProcess("fetcher", {**kept, "HOME": str(home), **hub.environ, **more}), REPLIES
        )

    async def ask(self, request: Message) -> Any:
        """Return the reply."""
        return await self.child.call(request).receive()

    async def end(self) -> None:
        self.child.kill()
        await self.child.gone()


@pytest.fixture
async def fetcher_session(tmp_path: Path) -> AsyncGenerator[tuple[FetcherSession, Hub]]:
    with Hub() as hub:
        hub.add("a/b", {"m.gguf": SMALL})
        fetcher_session = FetcherSession(hub, tmp_path, HF_HUB_DOWNLOAD_TIMEOUT="2")
        yield fetcher_session, hub
        await fetcher_session.end()


def answer(**changed: object) -> Fault:
    """Return a hub's answer about a/b with that changed."""
    sibling = {
        "rfilename": "m.gguf",
        "size": 9,
        "lfs": {"sha256": "0" * 64, "size": 9, "pointerSize": 1},
    }
    info = {"id": "a/b", "sha": "0" * 40, "gated": False, "tags": [], "siblings": [sibling]}
    return Fault(
        200, {"Content-Type": "application/json"}, json.dumps({**info, **changed}).encode()
    )


def file(**changed: object) -> Fault:
    """The same, with that changed of its file."""
    lfs = {"sha256": "0" * 64, "size": 9, "pointerSize": 1}
    return answer(siblings=[{"rfilename": "m.gguf", "size": 9, "lfs": {**lfs, **changed}}])


INVALID = [
    Fault(200, body=b""),
    Fault(200, body=b"<html>Log in to the airport's network"),
    Fault(200, body=b"[" * 100_000),
    Fault(200, body=b"[]"),
    Fault(200, body=b"null"),
    Fault(200, body=b"\xff\xfe\x00"),
    answer(id=None, sha=None),
    answer(sha="main"),
    answer(sha="0" * 39 + "\n"),
    answer(sha=["0" * 40]),
    answer(siblings={"rfilename": 3}),
    answer(siblings=[{"rfilename": None}, 7]),
    answer(siblings=[{"rfilename": "m.gguf"}]),
    answer(siblings="m.gguf"),
    answer(lastModified="yesterday"),
    file(size=0),
    file(size=-9),
    file(size=True),
    file(size=9.5),
    file(size="9"),
    file(size=1 << 60),
    file(sha256="0" * 63),
    file(sha256="G" * 64),
    file(sha256=None),
    file(sha256={"a": 1}),
]


async def test_invalid_answers_are_reported_as_such(
    fetcher_session: tuple[FetcherSession, Hub],
) -> None:
    fetcher, hub = fetcher_session
    for fault in INVALID:
        hub.fault(fault, on="api")
        reply = await fetcher.ask(LookUpSource(SOURCE))
        assert reply.error == "WorkerUnavailable", fault
        assert "is invalid" in reply.message
    hub.fault(answer(siblings=[]), on="api")
    assert (await fetcher.ask(LookUpSource(SOURCE))).error == "ConfigError"
    hub.fault(
        answer(gated="x", tags=[1, None, "license:mit"], cardData={"license": ["a", 1]}), on="api"
    )
    offer = (await fetcher.ask(LookUpSource(SOURCE))).value
    assert (offer.licence, offer.gated, offer.size) == ("mit", True, 9)
    hub.fault(answer(cardData={"license": "other", "license_name": "gemma"}), on="api")
    assert (await fetcher.ask(LookUpSource(SOURCE))).value.licence == "gemma"
    hub.fault(answer(cardData={"license": "\x1b[31m" * 9}, tags=["license:" + "x" * 999]), on="api")
    assert (await fetcher.ask(LookUpSource(SOURCE))).value.licence == ""
    pinned = replace(SOURCE, revision="1" * 40)
    hub.fault(answer(), on="api")
    assert "its revision" in (await fetcher.ask(LookUpSource(pinned))).message


async def test_answers_that_do_harm(fetcher_session: tuple[FetcherSession, Hub]) -> None:
    fetcher, hub = fetcher_session
    endless = Fault(200, body=b'{"id": "' + b"x" * (17 << 20) + b'"}')
    bomb = Fault(200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * (17 << 20)))
    for fault, words in ((endless, "doesn't end"), (bomb, "compressed")):
        hub.fault(fault, on="api")
        reply = await fetcher.ask(LookUpSource(SOURCE))
        assert reply.error == "WorkerUnavailable"
        assert words in reply.message
    hub.fault(Fault(unsized=True), on="api")
    hub.fault(Fault(cut=50), on="api", after=1)
    assert isinstance(await fetcher.ask(LookUpSource(SOURCE)), OfferReply)
    assert isinstance(await fetcher.ask(LookUpSource(SOURCE)), OfferReply)


@pytest.mark.parametrize("count", [40, pytest.param(5000, marks=pytest.mark.long)])
async def test_spoiled_answers(fetcher_session: tuple[FetcherSession, Hub], count: int) -> None:
    fetcher, hub = fetcher_session
    chance = random.Random(6)
    good = answer(cardData={"license": "mit"}).body
    for _ in range(count):
        body = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(body))
            body[at : at + chance.randint(0, 9)] = chance.randbytes(chance.randint(0, 4))
        hub.fault(Fault(200, body=bytes(body)), on="api")
        reply = await fetcher.ask(ListFiles("a/b", ""))
        if isinstance(reply, Failed):
            assert reply.error == "WorkerUnavailable"
            assert "is invalid" in reply.message
            continue
        for offer in reply.value:
            assert hub_metadata.is_model_path(offer.source.file)
            assert hub_metadata.is_commit(offer.source.revision)
            assert is_sha256(offer.sha256) or not offer.sha256
            assert offer.size > 0


@pytest.mark.parametrize("status", [400, 403, 405, 501])
def test_where_nothing_but_get_is_good_one_byte_is_asked_for(status: int) -> None:
    """Signed addresses are often good for GET alone."""
    with Hub() as hub, closing(hub_client.HubClient(hub.environ)) as web:
        hub.add("a/b", {"m.gguf": SMALL})
        hub.fault(Fault(status), on="resolve", method="HEAD")
        url = f"{hub.url}/a/b/resolve/main/m.gguf"
        assert HubMetadata(web, lambda: False).look_up(Source(url=url)).size == len(SMALL)
        assert [seen.headers.get("range") for seen in hub.contents()] == ["bytes=0-0"]


def test_an_address_of_nothing_is_asked_once() -> None:
    with Hub() as hub, closing(hub_client.HubClient(hub.environ)) as web:
        hub.fault(Fault(404), on="resolve", times=0)
        metadata = HubMetadata(web, lambda: False)
        with pytest.raises(Failure, match="There is nothing at"):
            metadata.look_up(Source(url=f"{hub.url}/a/b/resolve/main/m.gguf"))
        assert len(hub.log) == 1


def test_the_hubs_own_client_reports_no_use() -> None:
    """Nor does it look for a newer version of itself, whatever the environment says."""
    code = (
        "from baton.download.child.hub_metadata import _hub_api\n"
        "from baton.download.child.hub_client import HubClient\n"
        "_hub_api(HubClient({}))\n"
        "from huggingface_hub import constants\n"
        "print(constants.HF_HUB_DISABLE_TELEMETRY, constants.HF_HUB_DISABLE_UPDATE_CHECK)\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    run = [sys.executable, "-P", "-c", code]
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


@pytest.mark.parametrize(("repo", "revision"), [("a/../b", ""), ("a/b", "../main")])
def test_what_names_no_repository_is_not_asked_for(repo: str, revision: str) -> None:
    with Hub() as hub, closing(hub_client.HubClient(hub.environ)) as web:
        with pytest.raises(Failure):
            HubMetadata(web, lambda: False).list_files(repo, revision)
        assert hub.log == []


def test_a_question_that_is_not_wanted_any_more_is_not_asked_again() -> None:
    """It is stopped while it waits before it asks a second time."""
    with Hub() as hub, closing(hub_client.HubClient(hub.environ)) as web:
        hub.fault(Fault(503, retry_after=3), on="api", times=0)
        with pytest.raises(hub_client.Stopped):
            HubMetadata(web, lambda: bool(hub.log)).list_files("a/b")
        assert len(hub.log) == 1


@pytest.mark.sampled(0.5)
async def test_a_network_that_puts_its_own_certificate_in(tmp_path: Path) -> None:
    x509 = pytest.importorskip("cryptography.x509")
    context = server_context(x509, tmp_path / "own.pem")
    with Hub(context=context) as hub:
        hub.add("a/b", {"m.gguf": SMALL})
        stranger, friend = (
            FetcherSession(hub, tmp_path),
            FetcherSession(hub, tmp_path, SSL_CERT_FILE=str(tmp_path / "own.pem")),
        )
        try:
            refused, offer = await asyncio.gather(
                stranger.ask(LookUpSource(SOURCE)), friend.ask(LookUpSource(SOURCE))
            )
            assert "can't be trusted" in refused.message
            assert "SSL_CERT_FILE" in refused.hint
            assert offer.value.size == len(SMALL)
            # The store speaks plain http: no redirect leads there from https.
            led = await friend.ask(ReadHeader(offer.value))
            assert "not safe" in led.message
        finally:
            await stranger.end()
            await friend.end()
        assert hub.contents() == []


def server_context(x509: Any, file: Path) -> ssl.SSLContext:
    """Return what a server needs to be 127.0.0.1 by a certificate of its own, kept in the file."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file.write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    own = file.with_suffix(".key")
    own.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, own)
    return context


# How it connects


def test_the_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_file\n")
    home = {"HF_HOME": str(tmp_path)}
    assert hub_client.account_token({"HF_TOKEN": " hf_a ", **home}) == "hf_a"
    assert hub_client.account_token({"HUGGING_FACE_HUB_TOKEN": "hf_b"}) == "hf_b"
    assert hub_client.account_token(home) == "hf_file"
    assert hub_client.account_token({"HF_TOKEN_PATH": str(tmp_path / "token")}) == "hf_file"
    assert (
        hub_client.account_token({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN": "hf_a"}) == ""
    )
    assert hub_client.account_token({"HF_HOME": str(tmp_path / "none")}) == ""
    assert hub_client.account_token({"HF_TOKEN": "hf_a\r\nX-Header: b"}) == ""


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", "http://example.org/m.gguf"),
        ("", "http://192.168.1.2/m.gguf"),
        ("", "ftp://example.org/m.gguf"),
        ("http://mirror.lan", "http://example.org/m.gguf"),
        ("https://mirror.lan", "http://mirror.lan/m.gguf"),
    ],
)
def test_addresses_that_nothing_is_fetched_from(endpoint: str, url: str) -> None:
    web = hub_client.HubClient({"HF_ENDPOINT": endpoint})
    with pytest.raises(hub_client.UnsafeAddress), web.open(url):
        pass


def test_the_token_is_for_the_hub_alone() -> None:
    web = hub_client.HubClient(
        {"HF_ENDPOINT": "https://mirror.example.org:8443/hf", "HF_TOKEN": "hf_x"}
    )
    assert web.is_hub("https://mirror.example.org:8443/anything")
    for url in (
        "https://mirror.example.org/hf",
        "http://mirror.example.org:8443/hf",
        "https://cdn.mirror.example.org:8443/",
        "https://mirror.example.org.evil.net:8443/",
    ):
        assert not web.is_hub(url)
    source = Source("a/b", "x y/ü#?.gguf", "main")
    where = "https://mirror.example.org:8443/hf/a/b/resolve/main/x%20y/%C3%BC%23%3F.gguf"
    assert web.address(source) == where


@pytest.mark.parametrize("said", ["1", "y", "enabled", "TRUE", "2", "banana"])
def test_a_hub_that_may_be_switched_off_is_not_asked(said: str) -> None:
    with closing(hub_client.HubClient({"HF_HUB_OFFLINE": said})) as web, pytest.raises(Failure):
        web.send(httpx.Request("GET", hub_client.DEFAULT_HUB))


@pytest.mark.parametrize("said", ["", "0", "no", "False", " off "])
def test_a_hub_that_is_plainly_not_switched_off_is_asked(said: str) -> None:
    with closing(hub_client.HubClient({"HF_HUB_OFFLINE": said})) as web:
        assert not web.offline


def test_a_configured_token_goes_to_no_other_host() -> None:
    with Hub() as hub:
        hub.add("a/b", {"m.gguf": SMALL})
        with closing(hub_client.HubClient({"HF_ENDPOINT": "https://hub.example.org"})) as web:
            url = f"{hub.url}/a/b/resolve/main/m.gguf"
            with web.open(url, headers={"Authorization": "Bearer hf_canary"}) as response:
                assert response.status_code == 200
        assert hub.log
        assert not any("authorization" in seen.headers for seen in hub.log)


def test_a_compressed_answer_is_refused_and_its_connection_closed() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(30)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        refused: list[BaseException] = []

        def ask() -> None:
            try:
                with web.open(url):
                    pass
            except hub_client.UnsafeAddress as error:
                refused.append(error)  # kept, as the frames that hold the answer are

        with closing(hub_client.HubClient({})) as web:
            asking = threading.Thread(target=ask)
            asking.start()
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(30)
                assert connection.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n"
                connection.sendall(head)
                asking.join(30)
                assert "compressed" in str(refused[0])
                assert connection.recv(1) == b""


@pytest.mark.parametrize("endpoint", ["example.org", "ftp://x", "https://u:p@x", "https://x/?a=b"])
def test_endpoints_that_are_none(endpoint: str) -> None:
    with pytest.raises(Failure):
        hub_client.HubClient({"HF_ENDPOINT": endpoint})


@pytest.mark.parametrize("proxy", ["http://", "http://:8080", "http://127.0.0.1:0", "ftp://x"])
def test_a_proxy_that_cannot_be_used_is_an_error(proxy: str) -> None:
    said = rf"The proxy in HTTPS_PROXY, {proxy}, can't be used"
    with (
        closing(hub_client.HubClient({"HTTPS_PROXY": proxy})) as web,
        pytest.raises(Failure, match=said),
    ):
        web.send(httpx.Request("GET", hub_client.DEFAULT_HUB))


@pytest.mark.parametrize("said", ["nan", "-1", "0", "soon", ""])
def test_a_patience_that_is_none_is_the_usual_one(said: str) -> None:
    assert (
        hub_client.HubClient({"HF_HUB_DOWNLOAD_TIMEOUT": said}).read_seconds
        == hub_client.READ_SECONDS
    )
