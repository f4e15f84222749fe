"""A Hugging Face hub on loopback, as the official client meets it, that misbehaves on request.

    with Hub() as hub:
        old = hub.add("user/repo", {"m.gguf": b"..."})        # returns the commit, 40 hex digits
        new = hub.add("user/repo", {"m.gguf": Path("big")})   # `main` has changed; both stay
        ... HF_ENDPOINT=hub.url ...                           # hub.environ: that, no telemetry
        hub.fault(Fault(cut=70_000), on="store")              # the next GET of content; then fine
        hub.fault(Fault(status=503), on="api", times=0)       # always; hub.clear_faults() ends it
        hub.choose = lambda seen: Fault(...) or None          # any rule of one's own
        hub.expire()                                          # no address signed so far is good
        assert hub.served("m.gguf") == ...                    # bytes of content sent; see hub.log
        assert not hub.leaked("hf_secret")                    # what ever reached the store

There are two servers, as in the real world: the hub (127.0.0.1), which knows repositories and
accounts, and a store under another name (`localhost`), to which it redirects with an address that
is signed and expires. Big files (all but texts) are LFS: `resolve` answers 302 with X-Repo-Commit,
X-Linked-Etag (the sha256) and X-Linked-Size; the store has an ETag of its own, ranges, If-Range,
and refuses a request that carries an account's token (400), an expired address (403), and ranges
beyond the end (416). Texts are served by the hub itself behind a relative 307. Without xet.

A fault is for `on="api"` (metadata), `"resolve"` (HEAD and GET of addresses) or `"store"`
(content), for requests whose path or file holds `file`; it skips the first `after` of these and
holds for `times` (0: for ever). `method` "" is any. `support.http_server.Fault` lists what can go
wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlencode

from support.http_server import (
    FINE,
    LOOP,
    Answer,
    Fault,
    ServedRequest,
    Server,
    as_json,
    in_seconds,
)

__all__ = ["LOOP", "Fault", "Hub", "ServedRequest", "in_seconds"]

_TEXTS = (".md", ".json", ".txt", ".gitattributes")
_DATE = "2026-09-01T12:00:00.000Z"


@dataclass(frozen=True, slots=True)
class Blob:
    """One file's content."""

    content: bytes | Path
    size: int
    sha256: str
    oid: str
    lfs: bool


@dataclass(slots=True)
class Repo:
    """A repository: commits with their files, names for commits, and who may have them."""

    id: str
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    gated: str | bool = False
    private: bool = False


@dataclass(slots=True)
class _Rule:
    fault: Fault
    on: str
    file: str
    method: str
    after: int
    times: int

    def takes(self, seen: ServedRequest, name: str) -> bool:
        """Whether this request is one of those; count it."""
        if seen.kind != self.on or self.method not in ("", seen.method):
            return False
        if self.file not in seen.path and self.file not in name:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times == 1:
            self.times = -1
            return True
        self.times -= self.times > 1
        return self.times >= 0


class Hub:
    """See the module's text. `tokens` are the accounts; `accepted` may have gated files."""

    def __init__(self, *, page: int = 1000, context: ssl.SSLContext | None = None) -> None:
        self.log: list[ServedRequest] = []
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.accepted: set[str] = set()
        self.choose: Callable[[ServedRequest], Fault | None] | None = None
        self.page = page
        self._context = context
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._secret = b"signs addresses"
        self._blobs: dict[str, tuple[str, Blob]] = {}
        self._servers: tuple[Server, Server] | None = None

    # What a test sets and asks

    def add(
        self,
        repo: str,
        files: Mapping[str, bytes | Path],
        *,
        branch: str = "main",
        licence: str | None = "apache-2.0",
        gated: str | bool = False,
        private: bool = False,
    ) -> str:
        """Make a commit of these files (all that it holds); return its 40 hex digits."""
        kept = self.repos.setdefault(repo, Repo(repo))
        blobs = {name: _blob(name, content) for name, content in files.items()}
        contents = repr((repo, len(kept.commits), sorted((n, b.sha256) for n, b in blobs.items())))
        commit = hashlib.sha1(contents.encode()).hexdigest()
        kept.commits[commit] = blobs
        kept.names[branch] = commit
        kept.gated, kept.private = gated, private
        kept.card = {"license": licence} if licence else {}
        kept.tags = ["gguf", "region:us", *([f"license:{licence}"] if licence else [])]
        for name, blob in blobs.items():
            self._blobs[blob.sha256] = (name, blob)
        return commit

    def sha256(self, repo: str, file: str, revision: str = "main") -> str:
        """Return a file's sha256."""
        kept = self.repos[repo]
        return kept.commits[kept.names.get(revision, revision)][file].sha256

    def fault(
        self,
        fault: Fault,
        *,
        on: str = "store",
        file: str = "",
        method: str = "",
        after: int = 0,
        times: int = 1,
    ) -> None:
        """Let requests go wrong, see the module's text."""
        with self._lock:
            self._rules.append(_Rule(fault, on, file, method, after, times))

    def clear_faults(self) -> None:
        """Let all go well from now on."""
        with self._lock:
            self._rules.clear()
            self.choose = None

    def expire(self) -> None:
        """Make every address that was signed so far a bad one."""
        self._secret += b"!"

    def served(self, file: str = "") -> int:
        """Return how many bytes of content the store has sent."""
        return sum(seen.sent for seen in self.contents(file))

    def contents(self, file: str = "") -> list[ServedRequest]:
        """Return the requests for content that reached the store."""
        return [one for one in self.log if one.where == "store" and file in self._name(one)]

    def leaked(self, secret: str) -> list[ServedRequest]:
        """Return the requests by which a secret reached the store."""
        return [one for one in self.log if one.where == "store" and secret in repr(one)]

    def quiet(self, seconds: float = 60.0) -> None:
        """Wait until nothing is being answered."""
        end = time.monotonic() + seconds
        while any(server.open for server in self._running):
            if time.monotonic() > end:
                raise AssertionError("the hub is still answering")
            time.sleep(0.005)

    @property
    def url(self) -> str:
        """The hub's address, for HF_ENDPOINT."""
        scheme = "https" if self._context else "http"
        return f"{scheme}://127.0.0.1:{self._running[0].port}"

    @property
    def store(self) -> str:
        """The store's address: another host, as far as a client can see."""
        return f"http://localhost:{self._running[1].port}"

    @property
    def environ(self) -> dict[str, str]:
        """What a program must find in its environment to use this hub."""
        return {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_TELEMETRY": "1"}

    # Life

    @property
    def _running(self) -> tuple[Server, Server]:
        assert self._servers is not None, "the hub isn't open"
        return self._servers

    def __enter__(self) -> Self:
        self._servers = (Server("hub", self._answer, self._context), Server("store", self._answer))
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._running:
            server.close()
        errors = [error for server in self._running for error in server.errors]
        assert not errors, errors[0]

    # What is answered

    def _answer(self, seen: ServedRequest) -> tuple[Answer, Fault]:
        if seen.where == "store":
            seen.kind = "store"
        else:
            seen.kind = "resolve" if "/resolve" in seen.path else "api"
        with self._lock:
            self.log.append(seen)
            fault = self.choose(seen) if self.choose else None
            name = self._name(seen)
            fault = fault or next((r.fault for r in self._rules if r.takes(seen, name)), None)
        answer = self._stored(seen) if seen.where == "store" else self._asked(seen)
        return answer, fault or FINE

    def _asked(self, seen: ServedRequest) -> Answer:
        """Answer as the hub."""
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            return _refusal(401, "", "Invalid credentials in Authorization header")
        path = seen.path
        if path.startswith("/api/resolve-cache/models/"):
            repo, rest = self._split(path.removeprefix("/api/resolve-cache/models/"))
            commit, _, file = rest.partition("/")
            return self._text(commit, self.repos[repo].commits[commit][file])
        api = path.startswith("/api/models/")
        repo, rest = self._split(path.removeprefix("/api/models/" if api else "/"))
        if repo in self.renamed:
            to = quote(path.replace(repo, self.renamed[repo], 1))
            query = urlencode(seen.query, doseq=True)
            return Answer(307, b"", {"Location": f"{to}?{query}" if query else to})
        kept = self.repos.get(repo)
        if kept is None or (kept.private and not token):
            return _refusal(404 if token else 401, "RepoNotFound", "Repository not found")
        return self._about(kept, rest, seen) if api else self._resolve(kept, rest, token)

    def _about(self, repo: Repo, rest: str, seen: ServedRequest) -> Answer:
        """Answer what is asked of a repository, after `/api/models/{repo}`."""
        what, _, rest = rest.partition("/")
        name, _, path = rest.partition("/")
        if what in ("", "revision"):
            name, path = (rest or "main"), ""
        commit = _commit(repo, name)
        if commit is None:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {name}")
        match what:
            case "" | "revision":
                return as_json(_info(repo, commit, "blobs" in seen.query))
            case "tree":
                return self._tree(repo, commit, path, seen)
            case "paths-info":
                wanted = parse_qs(seen.body.decode()).get("paths", [])
                files = repo.commits[commit]
                return as_json([_file_entry(one, files[one]) for one in wanted if one in files])
        return _refusal(404, "", "Sorry, we can't find the page you are looking for.")

    def _tree(self, repo: Repo, commit: str, folder: str, seen: ServedRequest) -> Answer:
        deep = seen.query.get("recursive", ["false"])[0].lower() == "true"
        below = f"{folder}/" if folder else ""
        listed: dict[str, dict[str, Any]] = {}
        for name, blob in repo.commits[commit].items():
            if not name.startswith(below):
                continue
            parts = name.removeprefix(below).split("/")
            for depth in range(1, len(parts) if deep else min(2, len(parts))):
                inner = below + "/".join(parts[:depth])
                oid = hashlib.sha1(inner.encode()).hexdigest()
                listed[inner] = {"type": "directory", "oid": oid, "size": 0, "path": inner}
            if deep or len(parts) == 1:
                listed[name] = _file_entry(name, blob)
        if folder and not listed:
            return _refusal(404, "EntryNotFound", f"{folder} does not exist on {commit!r}")
        at = int(seen.query.get("cursor", ["0"])[0])
        page = list(listed.values())[at : at + self.page]
        more: dict[str, str] = {}
        if at + self.page < len(listed):
            to = f"{self.url}{quote(seen.path)}?recursive={deep}&cursor={at + self.page}"
            more["Link"] = f'<{to}>; rel="next"'
        return as_json(page, **more)

    def _resolve(self, repo: Repo, rest: str, token: str) -> Answer:
        """Answer `/{repo}/resolve/{revision}/{file}`."""
        _, _, rest = rest.partition("resolve/")
        name, _, file = rest.partition("/")
        commit = _commit(repo, name)
        if commit is None:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {name}")
        if repo.gated and token not in self.accepted:
            message = f"Access to model {repo.id} is restricted. You must have access to it."
            return _refusal(403 if token else 401, "GatedRepo", message)
        blob = repo.commits[commit].get(file)
        if blob is None:
            return _refusal(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
        etag = f'"{blob.sha256 if blob.lfs else blob.oid}"'
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Size": str(blob.size),
            "X-Linked-ETag": etag,
            "Accept-Ranges": "bytes",
        }
        if not blob.lfs:
            to = quote(f"/api/resolve-cache/models/{repo.id}/{commit}/{file}")
            return Answer(307, b"Temporary Redirect", {**headers, "Location": to})
        to = self._signed(blob.sha256)
        return Answer(302, b"Found. Redirecting", {**headers, "Vary": "Accept", "Location": to})

    def _text(self, commit: str, blob: Blob) -> Answer:
        headers = {"X-Repo-Commit": commit, "ETag": f'"{blob.oid}"'}
        return Answer(200, blob.content, headers, ranges=True)

    # The store

    def _signed(self, sha256: str, seconds: int = 3600) -> str:
        expires = int(time.time()) + seconds
        sign = self._signature(sha256, expires)
        return f"{self.store}/lfs/{sha256}?X-Amz-Expires={expires}&X-Amz-Signature={sign}"

    def _signature(self, sha256: str, expires: int) -> str:
        return hmac.new(self._secret, f"{sha256} {expires}".encode(), "sha256").hexdigest()

    def _stored(self, seen: ServedRequest) -> Answer:
        """Answer as the store."""
        if "authorization" in seen.headers:
            return _xml(400, "InvalidArgument", "Only one auth mechanism allowed")
        sha256 = seen.path.removeprefix("/lfs/")
        expires = int(seen.query.get("X-Amz-Expires", ["0"])[0])
        signature = seen.query.get("X-Amz-Signature", [""])[0]
        if expires < time.time() or signature != self._signature(sha256, expires):
            return _xml(403, "AccessDenied", "Request has expired")
        name, blob = self._blobs[sha256]
        headers = {
            "ETag": f'"{blob.oid[:32]}-7"',
            "Last-Modified": "Tue, 01 Sep 2026 12:00:00 GMT",
            "Content-Type": "binary/octet-stream",
            "Content-Disposition": f'inline; filename="{quote(name)}"',
        }
        return Answer(200, blob.content, headers, ranges=True)

    def _name(self, seen: ServedRequest) -> str:
        """Return the name of the file that a request to the store is for."""
        return self._blobs.get(seen.path.removeprefix("/lfs/"), (seen.path, None))[0]

    def _split(self, path: str) -> tuple[str, str]:
        """Split a path into the repository's name, with or without an owner, and the rest."""
        for known in (*self.repos, *self.renamed):
            if path == known or path.startswith(f"{known}/"):
                return known, path[len(known) + 1 :]
        parts = path.split("/", 2)
        return "/".join(parts[:2]), parts[2] if len(parts) > 2 else ""


def _blob(name: str, content: bytes | Path) -> Blob:
    if isinstance(content, bytes):
        sha256, size = hashlib.sha256(content).hexdigest(), len(content)
    else:
        with content.open("rb") as file:
            sha256, size = hashlib.file_digest(file, "sha256").hexdigest(), content.stat().st_size
    oid = hashlib.sha1(f"blob {size} {sha256}".encode()).hexdigest()
    return Blob(content, size, sha256, oid, not name.endswith(_TEXTS))


def _commit(repo: Repo, name: str) -> str | None:
    if name in repo.names:
        return repo.names[name]
    found = [commit for commit in repo.commits if len(name) >= 7 and commit.startswith(name)]
    return found[0] if len(found) == 1 else None


def _info(repo: Repo, commit: str, blobs: bool) -> dict[str, Any]:
    siblings: list[dict[str, Any]] = []
    for name, blob in repo.commits[commit].items():
        sibling: dict[str, Any] = {"rfilename": name}
        if blobs:
            sibling |= {"blobId": blob.oid, "size": blob.size}
            if blob.lfs:
                sibling["lfs"] = {"sha256": blob.sha256, "size": blob.size, "pointerSize": 135}
        siblings.append(sibling)
    return {
        "_id": "66f0000000000000000000aa",
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.id.split("/")[0],
        "sha": commit,
        "lastModified": _DATE,
        "createdAt": _DATE,
        "private": repo.private,
        "gated": repo.gated,
        "disabled": False,
        "downloads": 12345,
        "likes": 67,
        "tags": repo.tags,
        "pipeline_tag": "text-generation",
        "cardData": repo.card,
        "siblings": siblings,
        "spaces": [],
        "usedStorage": sum(blob.size for blob in repo.commits[commit].values()),
    }


def _file_entry(name: str, blob: Blob) -> dict[str, Any]:
    listed: dict[str, Any] = {"type": "file", "oid": blob.oid, "size": blob.size, "path": name}
    if blob.lfs:
        listed["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": 135}
    return listed


def _refusal(status: int, code: str, message: str, also: Mapping[str, str] = {}) -> Answer:
    headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **also}
    answer = as_json({"error": message}, **headers)
    return Answer(status, answer.content, answer.headers)


def _xml(status: int, code: str, message: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})
