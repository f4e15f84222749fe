"""What a refusal or a failed connection means, in sentences for people.

`what` names the file or repository that was asked for. Everything that a server says about itself
is untrusted: it is shown on one line, and never decides anything but which sentence it is.
"""

from __future__ import annotations

import re
import socket
import ssl

import httpx

from baton.core.sanitiser import one_line
from baton.download.child import hub_client
from baton.ipc.child_http import retry_after, wait_text
from baton.ipc.parent_channel import Failure

# What may be meant: the error, its sentence and its hint.

_GATED = (
    "SecretMissing",
    "{repo} is only for accounts that have agreed to its licence.",
    "Accept the licence on {page}, then set HF_TOKEN to a token of that account.",
)
_NO_REPO = (
    "ConfigError",
    "{host} has no repository {repo}, or shows it only to some accounts.",
    "Check the name; what is private needs HF_TOKEN.",
)
_NO_REVISION = (
    "ConfigError",
    "{host} has no such revision of {repo}.",
    "Leave the revision out for the newest.",
)
_NOT_THERE = ("ConfigError", "{host} has no {what}.", "Check the name.")
_NOTHING_THERE = ("ConfigError", "There is nothing at {what}.", "Check the address.")
_TOKEN = (
    "SecretMissing",
    "{host} doesn't know the token in HF_TOKEN (or the one that `hf auth login` kept).",
    "Set HF_TOKEN to a valid one, or unset it: most models need none.",
)
_NO_ACCESS = (
    "SecretMissing",
    "{host} refuses access to {what} (HTTP {status}){said}.",
    "Look at {page} in a browser; what needs an account needs HF_TOKEN.",
)
_TOO_OFTEN = (
    "WorkerUnavailable",
    "{host} takes no more requests for now. What has come is kept.",
    "Try again in {wait}.",
)
_FAILED = (
    "WorkerUnavailable",
    "{host} failed (HTTP {status}) when asked for {what}. What has come is kept.",
    "Try again in {wait}.",
)
_ODD = (
    "WorkerUnavailable",
    "{host} answered HTTP {status} when asked for {what}{said}.",
    "Try again later, or fetch it from another source.",
)

_BY_CODE = {
    "GatedRepo": _GATED,
    "RepoNotFound": _NO_REPO,
    "RevisionNotFound": _NO_REVISION,
    "EntryNotFound": _NOT_THERE,
}
_BY_STATUS = {401: _NO_ACCESS, 403: _NO_ACCESS, 404: _NOT_THERE, 410: _NOT_THERE, 429: _TOO_OFTEN}
_BAD_TOKEN_TEXT = "invalid credentials"


def response_failure(response: httpx.Response, what: str) -> Failure:
    """Return what an answer means that brings nothing."""
    status, headers = response.status_code, response.headers
    said = headers.get("X-Error-Message", "")
    meaning = _BY_CODE.get(headers.get("X-Error-Code", "")) or _BY_STATUS.get(status, _ODD)
    if status == 401 and _BAD_TOKEN_TEXT in said.lower():
        meaning = _TOKEN
    elif status == 401 and meaning is _NO_ACCESS and "://" not in what:
        meaning = _NO_REPO  # so hubs answer strangers, lest they learn what is there
    elif meaning is _NOT_THERE and "://" in what:
        meaning = _NOTHING_THERE
    elif status in hub_client.TRANSIENT_STATUSES and status != 429:
        meaning = _FAILED
    fields = {
        "what": one_line(what),
        "repo": _repo(what),
        "host": one_line(response.request.url.netloc.decode("ascii", "replace")),
        "page": _page(response, what),
        "status": status,
        "said": f": {one_line(said).rstrip('.')}" if said.strip() else "",
        "wait": wait_text(retry_after(headers)),
    }
    error, message, hint = (text.format_map(fields) for text in meaning)
    return Failure(error, message, hint)


def connection_failure(error: Exception, what: str) -> Failure:
    """Return what a failed connection means, or one that was refused here."""
    what = one_line(what)
    match error:
        case httpx.TooManyRedirects():
            message, hint = f"The address of {what} redirects in a circle.", ""
        case hub_client.UnsafeAddress() | httpx.InvalidURL():
            message = f"{what} was not fetched: {one_line(str(error))}."
            hint = "Fetch it from an address that begins with https://."
        case httpx.TimeoutException():
            message = f"The server stopped answering when asked for {what}. What has come is kept."
            hint = "Check the network, then try again."
        case httpx.ProxyError():
            message = f"The proxy doesn't let {what} through: {one_line(str(error))}."
            hint = "Check HTTPS_PROXY and NO_PROXY."
        case httpx.ConnectError() if _is_tls_error(error):
            message = f"The server of {what} can't be trusted: {one_line(str(error))}."
            hint = "Where a network puts its own certificate in between, SSL_CERT_FILE names it."
        case httpx.ConnectError():
            message = f"{what} can't be reached: {_connect_reason(error)}."
            hint = "Check the network, and HF_ENDPOINT if it is set; nothing was lost."
        case _:
            message = f"The connection broke when {what} was asked for. What has come is kept."
            hint = "Try again."
    return Failure("WorkerUnavailable", message, hint or "Fetch it from another source.")


def _connect_reason(error: httpx.ConnectError) -> str:
    """Return why a connection failed, in plain words where there are some."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return f"{one_line(error.request.url.host)} can't be looked up"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there"
        cause = cause.__context__
    return one_line(re.sub(r"^\[Errno -?\d+\] ", "", str(error))) or type(error).__name__


def invalid_answer(host: str, what: str, why: str) -> Failure:
    """Return the error for an invalid answer of a hub; `why` follows a colon."""
    return Failure(
        "WorkerUnavailable",
        f"What {host} says of {one_line(what)} is invalid: {one_line(why)}.",
        "Check HF_ENDPOINT if it is set, or fetch it from another source.",
    )


def _page(response: httpx.Response, what: str) -> str:
    """Return where a person can look at it: the repository's page on the hub."""
    url = (response.history[0] if response.history else response).request.url
    page = url.copy_with(path=f"/{_repo(what)}", query=None, fragment=None)
    return one_line(str(page) if "://" not in what else what)


def _repo(what: str) -> str:
    return one_line(what if "://" in what else "/".join(what.split("/")[:2]))


def _is_tls_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__context__
    return False
