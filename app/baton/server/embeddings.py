"""OpenAI's Embeddings: what a request says, and the vectors that the encoder on board makes."""

from __future__ import annotations

import asyncio
from array import array
from base64 import b64encode
from collections.abc import Mapping
from math import hypot
from typing import Any, Literal

import msgspec

from baton.core.errors import WorkerUnavailable
from baton.core.ports import Router, TextEncoder
from baton.core.routing_types import MAX_VECTOR_TOKENS, VECTOR_WIDTH
from baton.server.api_errors import ApiError, api_error, bad_request
from baton.server.client_request import check_fields, read_fields
from baton.server.offered_models import EMBEDDING, OfferedModel

MAX_INPUTS = 2_048
MAX_INPUT_CHARS = 65_536
"""How many texts one request may have, as OpenAI's, and how long each may be."""


class EmbeddingsRequest(msgspec.Struct, frozen=True):
    """A request's fields, as far as Baton keeps to them."""

    model: str
    input: str | list[Any]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None


def read_embeddings(body: Mapping[str, Any]) -> tuple[EmbeddingsRequest, list[str]]:
    """Return what a request asks for, and its texts. Raises ApiError."""
    check_fields(body, EmbeddingsRequest, frozenset({"user"}), {}, [])
    asked = read_fields(body, EmbeddingsRequest)
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    if not all(isinstance(text, str) for text in texts):
        message = "Baton embeds texts, and these are numbers of another model's tokens."
        hint = "Send texts: in LangChain that is check_embedding_ctx_length=False."
        raise bad_request(message, "input", hint)
    if not 0 < len(texts) <= MAX_INPUTS:
        raise bad_request(f"There may be 1 to {MAX_INPUTS:,} texts.", "input")
    if not all(texts):
        raise bad_request("A text to embed is empty.", "input")
    if (longest := max(map(len, texts))) > MAX_INPUT_CHARS:
        message = f"A text has {longest:,} characters, and {MAX_INPUT_CHARS:,} are the most."
        raise bad_request(message, "input", "Send it in parts.")
    if asked.dimensions is not None and not 0 < asked.dimensions <= VECTOR_WIDTH:
        message = (
            f"Vectors have {VECTOR_WIDTH} dimensions, of which 1 to {VECTOR_WIDTH} can be had."
        )
        raise bad_request(message, "dimensions")
    return asked, texts


class Embedder:
    """Has texts embedded one after the other, so that prompts wait for one of them at most."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._turn = asyncio.Lock()

    @property
    def encoder(self) -> TextEncoder | None:
        """What embeds, None where nothing can."""
        router = self._router
        return router if isinstance(router, TextEncoder) and not router.trouble else None

    async def embed(
        self, asked: EmbeddingsRequest, texts: list[str], model: OfferedModel
    ) -> dict[str, Any]:
        """Return the answer to a request that names this model. Raises ApiError."""
        if model is not EMBEDDING:
            message = f"{asked.model[:80]!r} makes no vectors, {EMBEDDING.id} does."
            hint = "The setting serve.aliases allows other names of it."
            raise ApiError(404, "model_not_found", message, hint, "model")
        if (encoder := self.encoder) is None:
            why = getattr(self._router, "trouble", "") or "The encoder isn't installed."
            raise ApiError(503, "model_unavailable", why, "`baton doctor` says what to do.")
        tokens, data = 0, []
        for index, text in enumerate(texts):
            async with self._turn:
                try:
                    vector = await encoder.embed(text)
                except WorkerUnavailable as error:
                    raise api_error(error) from error
            if vector.tokens > MAX_VECTOR_TOKENS:
                raise ApiError(
                    400,
                    "context_length_exceeded",
                    f"The maximum context length of {asked.model[:80]} is {MAX_VECTOR_TOKENS:,}"
                    f" tokens, and a text has {vector.tokens:,}.",
                    "Send it in parts.",
                    "input",
                )
            tokens += vector.tokens
            shown = _shown(array("f", vector.values), asked)
            data.append({"object": "embedding", "index": index, "embedding": shown})
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": asked.model, "usage": usage}


def _shown(values: array[float], asked: EmbeddingsRequest) -> str | msgspec.Raw:
    """Return a vector in the form that was asked for, already as JSON: many take long at once."""
    if asked.dimensions not in (None, VECTOR_WIDTH):
        values = values[: asked.dimensions]
        length = hypot(*values) or 1.0
        values = array("f", (value / length for value in values))
    if asked.encoding_format == "base64":
        return b64encode(values.tobytes()).decode()
    return msgspec.Raw(msgspec.json.encode(values.tolist()))
