"""What the endpoint takes, in the form of OpenAPI 3.1, for tests that send what it allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from baton import __version__
from baton.server.completions import ChatRequest, CompletionRequest
from baton.server.embeddings import EmbeddingsRequest
from baton.server.messages import MessagesRequest
from baton.server.responses import ResponsesRequest

_REQUESTS = {
    "/v1/chat/completions": (ChatRequest, "Answer a conversation (OpenAI's Chat Completions)."),
    "/v1/responses": (ResponsesRequest, "Answer a conversation (OpenAI's Responses)."),
    "/v1/messages": (MessagesRequest, "Answer a conversation (Anthropic's Messages)."),
    "/v1/completions": (CompletionRequest, "Answer a prompt (OpenAI's legacy Completions)."),
    "/v1/messages/count_tokens": (MessagesRequest, "Count the tokens of a conversation."),
    "/v1/responses/input_tokens": (ResponsesRequest, "Count the tokens of a conversation."),
    "/v1/embeddings": (EmbeddingsRequest, "Return the vectors of texts (OpenAI's Embeddings)."),
}
_WITHOUT_RUN = ("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/embeddings")
_HEADERS = {
    "X-Baton-Budget": "What this request may cost at most, in US dollars.",
    "X-Baton-Deadline": "After how many seconds the answer ends with what there is.",
    "X-Baton-Strict": "1: fail with status 402 instead of finishing here at the ceiling.",
    "X-Baton-Private": "1: nothing of this leaves this machine.",
    "X-Baton-Keep": "0: keep nothing of this in the history.",
}


def describe_endpoint() -> dict[str, Any]:
    """Return the description."""
    kinds = [kind for kind, _ in _REQUESTS.values()]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {
        "/": {"get": _operation("Say that Baton runs.", security=[])},
        "/health": {"get": _operation("Say that Baton runs.", security=[])},
        "/v1/models": {"get": _operation("List the models.")},
        "/v1/models/{id}": {"get": _operation("Describe a model.", ["id"])},
        "/v1/responses/{id}": {"get": _operation("Return a response as it stands.", ["id"])},
        "/v1/responses/{id}/cancel": {"post": _operation("Stop a response.", ["id"])},
    }
    for (path, (_, text)), schema in zip(_REQUESTS.items(), schemas, strict=True):
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        asked = _operation(text, headers={} if path in _WITHOUT_RUN else _HEADERS)
        paths[path] = {"post": {**asked, "requestBody": body}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Baton", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(
    summary: str,
    names: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    parameters = [_parameter(name, "path", "") for name in names or ()]
    parameters += [_parameter(name, "header", text) for name, text in (headers or {}).items()]
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done."},
            "4XX": {"description": "The request can't be kept to."},
            "502": {"description": "A worker failed."},
            "503": {"description": "A worker can't work now."},
        },
        **more,
    }


def _parameter(name: str, place: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": text,
        "schema": {"type": "string"},
    }
