"""A worker whose model runs in a child process on this machine."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baton.core.errors import ContextTooLong
from baton.core.messages import Card, Chunk, Request, estimated_tokens
from baton.ipc import frames
from baton.workers.local.model_file import check_gguf
from baton.workers.local.model_memory import Memory
from baton.workers.local.model_process import Ask, Facts, Host


@dataclass(frozen=True, slots=True)
class Manner:
    """How a worker writes.

    None in what chooses its words is what the model file recommends, in `seed` chance. `thinking`
    says whether it writes thoughts before its answers; None: only if it can't do otherwise.
    `adapter` is a LoRA adapter's file, put on with that scale.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    thinking: bool | None = None
    adapter: Path | None = None
    adapter_scale: float = 1.0


class LocalWorker:
    """Answers with one GGUF model, one request at a time.

    The child process is started by the first request (or `warm`), ends when it has been idle for
    `idle_seconds` (0: never), and is started again when it died. `card.context` is the most the
    context may grow to, in tokens, `kv` how that is kept; `threads` 0 means one per physical core;
    `gpu_layers` -1 as many as fit. With `force` it is loaded however little memory is free.

    `ready` is awaited before a request has the model loaded: it raises ModelFileError if the file
    must not be. `warm` can't wait for it, so it loads only what `trusted` says is as it was when
    it was last looked at.
    """

    def __init__(
        self,
        card: Card,
        path: Path,
        memory: Memory,
        *,
        manner: Manner | None = None,
        threads: int = 0,
        gpu_layers: int = -1,
        kv: str = "f16",
        force: bool = False,
        idle_seconds: float = 600.0,
        environ: Mapping[str, str] = os.environ,
        ready: Callable[[], Awaitable[None]] | None = None,
        trusted: Callable[[], bool] | None = None,
    ) -> None:
        host = Host(
            path,
            memory,
            card.context,
            threads=threads,
            gpu_layers=gpu_layers,
            kv=kv,
            force=force,
            idle_seconds=idle_seconds,
            environ=environ,
            ready=ready,
            trusted=trusted,
        )
        self._take(card, manner or Manner(), host)

    def beside(self, card: Card, manner: Manner) -> LocalWorker:
        """Return another worker with the same model, which is in memory only once.

        The model's context, and all else about how it is loaded, is this worker's.
        """
        other = object.__new__(LocalWorker)
        other._take(replace(card, context=self._known.context), manner, self._host)
        return other

    def _take(self, card: Card, manner: Manner, host: Host) -> None:
        self._known = card
        self._manner = manner
        self._host = host
        self._facts: Facts | None = None
        self._card = card

    @property
    def card(self) -> Card:
        """What is known of the worker; more once the model has been loaded."""
        facts = self._host.facts
        if facts is not None and facts is not self._facts:
            self._facts, self._card = facts, _informed(self._known, facts)
        return self._card

    @property
    def path(self) -> Path:
        """Its model's file."""
        return self._host.path

    @property
    def force(self) -> bool:
        """Whether it is loaded however little memory is free."""
        return self._host.force

    @force.setter
    def force(self, force: bool) -> None:
        self._host.force = force

    def warm(self) -> None:
        """Begin to load the model; also before there is an event loop."""
        self._host.warm(self._known.name)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request; see core.ports.Worker."""
        if self._manner.adapter is not None:
            check_gguf(self._manner.adapter)
        ask = Ask(self._known.name, self._fields(request))
        try:
            async with aclosing(self._host.stream(ask)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except frames.FrameError as error:
            grammar = ask.fields["grammar"] or ""
            texts = [*(message.text for message in request.messages), grammar]
            raise ContextTooLong(sum(map(estimated_tokens, texts)), self.card.context) from error

    def _fields(self, request: Request) -> Mapping[str, Any]:
        """Return what the child must know: the request's own wishes come before the worker's."""
        manner = self._manner
        own = request.temperature is not None, request.seed is not None
        return {
            "messages": [{"role": m.role.value, "content": m.text} for m in request.messages],
            "max_tokens": request.max_tokens,
            "max_output": self.card.max_output,
            "grammar": request.shape.grammar if request.shape else None,
            "thinking": manner.thinking,
            "adapter": str(manner.adapter or ""),
            "adapter_scale": manner.adapter_scale,
            "temperature": request.temperature if own[0] else manner.temperature,
            "top_p": manner.top_p,
            "top_k": manner.top_k,
            "min_p": manner.min_p,
            "repeat_penalty": manner.repeat_penalty,
            "seed": request.seed if own[1] else manner.seed,
        }

    async def aclose(self) -> None:
        """Unload the model and forgive its deaths; the worker may be used again."""
        await self._host.aclose()

    @property
    def loading(self) -> bool:
        """Whether its model is being read, and nobody has been told yet that it is there."""
        return self._host.loading

    @property
    def adapter(self) -> Path | None:
        """The LoRA adapter that it puts on."""
        return self._manner.adapter

    @property
    def resident(self) -> int:
        """Bytes of memory the model may take now; those `beside` it name the same ones."""
        return self._host.resident

    @property
    def process(self) -> int | None:
        """The process that holds the model now: the same for those `beside` it; None if none."""
        return self._host.process

    @property
    def busy(self) -> bool:
        """Whether its model is answering."""
        return self._host.busy

    def unload(self) -> None:
        """Let the model's memory go."""
        self._host.unload()


def _informed(known: Card, facts: Facts) -> Card:
    """Return a card with what the child said of the model."""
    note = facts.note
    return replace(
        known,
        context=facts.context,
        parameters=facts.parameters,
        hardware=facts.hardware,
        licence=known.licence or facts.licence,
        note=known.note if note in known.note else f"{known.note} {note}".strip(),
    )
