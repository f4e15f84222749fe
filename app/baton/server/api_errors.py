"""What goes wrong, as programs read it: a status, a code, and an object in the protocol's shape."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baton.core.errors import (
    ERROR_CLASSES,
    AdapterError,
    BatonError,
    BudgetExceeded,
    ConfigError,
    ContextTooLong,
    ModelFileError,
    SecretMissing,
    StoreError,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.events import Failed

_KINDS: dict[type[BatonError], tuple[int, str]] = {
    AdapterError: (503, "model_unavailable"),
    BudgetExceeded: (402, "budget_exceeded"),
    ConfigError: (400, "invalid_request"),
    ContextTooLong: (400, "context_length_exceeded"),
    ModelFileError: (503, "model_unavailable"),
    SecretMissing: (503, "provider_key_missing"),
    StoreError: (503, "storage_unavailable"),
    WorkerError: (502, "worker_failed"),
    WorkerUnavailable: (503, "worker_unavailable"),
}
"""The status and the code of each error; a class that isn't there is as the one it derives from."""

_OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    421: "invalid_request_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES = {
    **_OPENAI_TYPES,
    402: "billing_error",
    413: "request_too_large",
    503: "overloaded_error",
}


class ApiError(Exception):
    """An error that a client is shown, with an HTTP status; `param` names the field at fault.

    `details` are for programs, in Anthropic's shape. `tokens` are the prompt's and the most that
    there may be: of a prompt that is too long.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str = "",
        param: str | None = None,
        *,
        details: Mapping[str, Any] | None = None,
        tokens: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = f"{message} {hint}".strip()
        self.param = param
        self.details = details
        self.tokens = tokens

    def openai(self) -> dict[str, Any]:
        """Return it as OpenAI's clients read it."""
        kind = _OPENAI_TYPES.get(self.status, "server_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    def anthropic(self) -> dict[str, Any]:
        """Return it as Anthropic's clients read it."""
        error: dict[str, Any] = {
            "type": _ANTHROPIC_TYPES.get(self.status, "api_error"),
            "message": self.message,
        }
        if self.tokens is not None:  # by these words its clients know that they have to shorten it
            message = f"prompt is too long: {self.tokens[0]} tokens > {self.tokens[1]} maximum"
            error["message"] = f"{message}. {self.message}"
        if self.details is not None:
            error["details"] = dict(self.details)
        return {"type": "error", "error": error}


def api_error(error: BatonError) -> ApiError:
    """Return what a client is shown of a BatonError."""
    return ApiError(*_kind_of(type(error)), error.message, error.hint)


def _kind_of(error: type[BatonError]) -> tuple[int, str]:
    return next((_KINDS[cls] for cls in error.__mro__ if cls in _KINDS), (502, "failed"))


def stopped_error() -> ApiError:
    """Return the error of a request that was broken off."""
    return ApiError(503, "stopped", "This was stopped before the answer was whole.")


def shown_error(error: Exception) -> ApiError:
    """Return what a client is shown of any error; of a bug where it is, not what it says."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BatonError):
        return api_error(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    place = f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"
    return ApiError(500, "failed", f"Baton hit a bug: {place}.")


def failure_error(failure: Failed) -> ApiError:
    """Return what a client is shown of an error that a run recorded by its class's name."""
    kind = ERROR_CLASSES.get(failure.error, BatonError)
    if kind is ContextTooLong and failure.limit:
        return too_long(failure.needed, failure.limit)
    return ApiError(*_kind_of(kind), failure.message, failure.hint)


def too_long(needed: int, limit: int, largest: str = "") -> ApiError:
    """Return the error of a prompt of too many tokens; `largest` says which part makes it so.

    Clients that shorten conversations themselves look for OpenAI's and Anthropic's very words.
    """
    message = (
        f"This model's maximum context length is {limit} tokens."
        f" However, your messages resulted in {needed} tokens."
    )
    hint = f"{largest} Leave the oldest messages out, or send less.".strip()
    sizes = (needed, limit)
    return ApiError(400, "context_length_exceeded", message, hint, "messages", tokens=sizes)


def bad_request(message: str, param: str | None = None, hint: str = "") -> ApiError:
    """Return the error of a request that can't be understood or kept to."""
    return ApiError(400, "invalid_request", message, hint, param)
