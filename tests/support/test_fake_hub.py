"""The loopback hub is a faithful one: the official client accepts it, in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.fake_hub import LOOP, Fault, Hub, in_seconds

pytestmark = pytest.mark.sampled(0.34)

CONTENT = bytes(range(256)) * 1200
CLIENT = """
import json, sys
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub import errors

api = HfApi()
def sibling(one):
    return [one.rfilename, one.size, one.lfs and one.lfs.sha256]
def listed(one):
    return [one.path, getattr(one, "size", None), getattr(one, "lfs", None) and one.lfs.sha256]
def info(repo, revision=None):
    one = api.model_info(repo, revision=revision, files_metadata=True)
    card = one.card_data.license if one.card_data else None
    return [one.id, one.sha, one.gated, one.tags, card, [sibling(s) for s in one.siblings]]
def tree(repo, revision=None, recursive=True):
    return [listed(one) for one in api.list_repo_tree(repo, revision=revision, recursive=recursive)]
def paths(repo, *names):
    return [listed(one) for one in api.get_paths_info(repo, list(names))]
def head(repo, file, revision=None):
    one = get_hf_file_metadata(hf_hub_url(repo, file, revision=revision))
    return [one.commit_hash, one.etag, one.size, one.location]
def get(repo, file, revision=None):
    return hf_hub_download(repo, file, revision=revision)
for line in sys.stdin:
    name, args = json.loads(line)
    try:
        print(json.dumps(globals()[name](*args)), flush=True)
    except errors.HfHubHTTPError as error:
        print(json.dumps({"error": type(error).__name__}), flush=True)
"""


def ask(hub: Hub, home: Path, *calls: tuple[str, list[Any]], token: str = "") -> list[Any]:
    """Return what the official client answers to each call."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        **hub.environ,
        **({"HF_TOKEN": token} if token else {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", CLIENT],
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_official_client_accepts_the_hub(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(CONTENT[::-1])
    with Hub(page=2) as hub:
        hub.tokens.add("hf_secret")
        old = hub.add("user/repo", {"m.gguf": CONTENT})
        new = hub.add(
            "user/repo",
            {"m.gguf": big, "a/b/c.gguf": b"c", "README.md": b"# m\n", "d.gguf": b"d"},
            licence="mit",
        )
        hub.renamed["user/older"] = "user/repo"
        info, before, tree, flat, paths, head, first, second, text, gone = ask(
            hub,
            tmp_path,
            ("info", ["user/repo"]),
            ("info", ["user/older", old]),
            ("tree", ["user/repo"]),
            ("tree", ["user/repo", new, False]),
            ("paths", ["user/repo", "m.gguf", "none"]),
            ("head", ["user/repo", "m.gguf", "main"]),
            ("get", ["user/repo", "m.gguf"]),
            ("get", ["user/older", "m.gguf", old]),
            ("get", ["user/repo", "README.md"]),
            ("get", ["user/repo", "none.gguf"]),
            token="hf_secret",
        )
        one, two = (hashlib.sha256(data).hexdigest() for data in (CONTENT, CONTENT[::-1]))
        assert one == hub.sha256("user/repo", "m.gguf", old)
        assert two == hub.sha256("user/repo", "m.gguf")
        names = ["m.gguf", "a/b/c.gguf", "README.md", "d.gguf"]
        assert info[:3] == ["user/repo", new, False]
        assert "license:mit" in info[3]
        assert info[4] == "mit"
        assert [name for name, *_ in info[5]] == names
        assert info[5][0] == ["m.gguf", len(CONTENT), two]
        assert info[5][2] == ["README.md", 4, None]
        assert before[1] == old
        assert before[5] == [["m.gguf", len(CONTENT), one]]
        assert {name for name, *_ in tree} == {*names, "a", "a/b"}
        assert {name for name, *_ in flat} == {"m.gguf", "a", "README.md", "d.gguf"}
        assert paths == [["m.gguf", len(CONTENT), two]]
        assert head[:3] == [new, two, len(CONTENT)]
        assert head[3].startswith(hub.store)
        assert Path(first).read_bytes() == CONTENT[::-1]
        assert Path(second).read_bytes() == CONTENT
        assert Path(text).read_bytes() == b"# m\n"
        assert gone == {"error": "RemoteEntryNotFoundError"}
        assert hub.served("m.gguf") == 2 * len(CONTENT)
        assert not hub.leaked("hf_secret")
        assert all("authorization" in one.headers for one in hub.log if one.where == "hub")


def test_the_official_client_understands_its_refusals(tmp_path: Path) -> None:
    with Hub() as hub:
        hub.tokens |= {"hf_in", "hf_out"}
        hub.accepted.add("hf_in")
        hub.add("user/gated", {"m.gguf": CONTENT}, gated="manual")
        hub.add("user/hidden", {"m.gguf": CONTENT}, private=True)
        calls: list[tuple[str, list[Any]]] = [
            ("info", ["user/gated"]),
            ("head", ["user/gated", "m.gguf"]),
            ("info", ["user/hidden"]),
            ("info", ["user/none"]),
            ("info", ["user/gated", "none"]),
        ]
        nobody = ask(hub, tmp_path, *calls)
        outside = ask(hub, tmp_path, *calls, token="hf_out")
        inside = ask(hub, tmp_path, *calls, token="hf_in")
    gated, missing = {"error": "GatedRepoError"}, {"error": "RepositoryNotFoundError"}
    assert [one[0][2] for one in (nobody, outside, inside)] == ["manual"] * 3
    assert [nobody[1], outside[1]] == [gated, gated]
    assert inside[1][2] == len(CONTENT)
    assert [nobody[2], nobody[3], outside[3]] == [missing] * 3
    assert outside[2][0] == "user/hidden"
    assert nobody[4] == {"error": "RevisionNotFoundError"}


@pytest.fixture
def client() -> Any:
    # None is used again: one that a fault is about to cut would take the next request along.
    fresh = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=60, limits=fresh) as client:
        yield client


@pytest.mark.parametrize("as_file", [True, False])
def test_ranges(client: httpx.Client, tmp_path: Path, as_file: bool) -> None:
    (tmp_path / "content").write_bytes(CONTENT)
    with Hub() as hub:
        hub.add("user/repo", {"m.gguf": tmp_path / "content" if as_file else CONTENT})
        url = f"{hub.url}/user/repo/resolve/main/m.gguf"

        def get(**headers: str) -> httpx.Response:
            return client.get(
                url, headers={name.replace("_", "-"): v for name, v in headers.items()}
            )

        whole = get()
        assert whole.content == CONTENT
        part = get(Range="bytes=1000-1999")
        assert (part.status_code, part.content) == (206, CONTENT[1000:2000])
        assert part.headers["content-range"] == f"bytes 1000-1999/{len(CONTENT)}"
        assert get(Range="bytes=307000-").content == CONTENT[307000:]
        assert get(Range="bytes=-7").content == CONTENT[-7:]
        assert get(Range=f"bytes=5-{len(CONTENT) * 2}").content == CONTENT[5:]
        beyond = get(Range=f"bytes={len(CONTENT)}-")
        assert (beyond.status_code, beyond.content) == (416, b"")
        etag = part.headers["etag"]
        assert get(Range="bytes=9-", If_Range=etag).content == CONTENT[9:]
        assert get(Range="bytes=9-", If_Range='"other"').status_code == 200
        assert [one.start for one in hub.contents()][:3] == [0, 1000, 307000]
        address = str(whole.url)
        assert client.head(address).headers["content-length"] == str(len(CONTENT))
        assert client.get(address, headers={"Authorization": "Bearer hf_x"}).status_code == 400
        assert hub.leaked("hf_x")
        hub.expire()
        assert client.get(address).status_code == 403
        assert get().content == CONTENT


def test_what_can_go_wrong(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(CONTENT)
    with Hub() as hub:
        hub.add("user/repo", {"m.gguf": tmp_path / "content", "n.gguf": b"other"})
        url = f"{hub.url}/user/repo/resolve/main/m.gguf"

        def go(fault: Fault, on: str = "store", **more: Any) -> httpx.Response:
            hub.fault(fault, on=on, **more)
            return client.get(url, headers={"Range": "bytes=100-"})

        assert go(Fault(wrong=200)).content[:101] == CONTENT[100:200] + bytes([CONTENT[200] ^ 255])
        assert go(Fault(whole=True)).status_code == 200
        shifted = go(Fault(shift=4)).headers["content-range"]
        assert shifted == f"bytes 104-{len(CONTENT) + 3}/{len(CONTENT)}"
        assert len(go(Fault(unsized=True)).content) == len(CONTENT) - 100
        assert len(go(Fault(length=-50)).content) == len(CONTENT) - 150
        for fault in (Fault(length=50), Fault(cut=5000), Fault(cut=0, reset=True)):
            with pytest.raises(httpx.TransportError):
                go(fault)
        hub.fault(Fault(cut=5000, stall=True))
        with client.stream("GET", url) as slow:
            assert len(next(slow.iter_raw())) <= 5000
        waits = go(Fault(status=429, retry_after=7), "resolve")
        assert (waits.status_code, waits.headers["retry-after"]) == (429, "7")
        assert "GMT" in go(Fault(503, retry_after=in_seconds(9)), "resolve").headers["retry-after"]
        assert go(Fault(401, code="GatedRepo"), "resolve").headers["x-error-code"] == "GatedRepo"
        with pytest.raises(httpx.TooManyRedirects):
            go(Fault(302, location=LOOP), "resolve", times=0)
        hub.clear_faults()
        with pytest.raises(httpx.UnsupportedProtocol):
            go(Fault(302, location="ftp://localhost/m.gguf"), "resolve")
        assert len(go(Fault(rate=2_000_000)).content) == len(CONTENT) - 100
        assert go(Fault(status=500), after=1).status_code == 206
        assert go(Fault(), file="n.gguf").status_code == 500
        assert go(Fault()).status_code == 206
        hub.choose = lambda seen: Fault(status=502) if seen.kind == "store" else None
        assert client.get(url).status_code == 502
        hub.quiet()
