"""Where requests go: the addresses that clients write in several ways, and what wrong ones mean."""

from __future__ import annotations

from collections.abc import Mapping

API_ROOT = "/v1"

ASKED_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1/responses",
    "/v1/responses/input_tokens",
)
"""What clients put behind the address that they are given."""

_SERVED = frozenset(path.split("/")[2] for path in ASKED_PATHS)


def canonical_path(path: str) -> str:
    """Return the address that is meant: without double slashes, and with /v1 once."""
    parts = [part for part in path.split("/") if part]
    while len(parts) > 1 and parts[0] == "v1" and parts[1] in ("v1", *_SERVED):
        del parts[0]
    return "/".join(["", *(["v1"] if parts and parts[0] in _SERVED else []), *parts]) or "/"


def is_anthropic(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request with this canonical path is of Anthropic's protocol."""
    return f"{path}/".startswith("/v1/messages/") or "anthropic-version" in headers


def no_address_text(path: str, headers: Mapping[str, str]) -> str:
    """Say that there is nothing at a canonical path, and which address clients need."""
    root = f"http://{headers.get('host', '')}"
    meant = [one for one in ASKED_PATHS if path.endswith(one.removeprefix(API_ROOT))]
    near = f" Did you mean {max(meant, key=len)}?" if meant else ""
    if path.startswith(f"{API_ROOT}/") and not meant:
        return f"There is nothing at this address. Served are: {', '.join(ASKED_PATHS)}."
    return (
        f"There is nothing at this address.{near} The address ends with {API_ROOT} for clients of"
        f" OpenAI's protocol ({root}{API_ROOT}), and without it for those of Anthropic's ({root})."
    )
