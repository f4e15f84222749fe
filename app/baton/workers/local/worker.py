"""A worker whose model runs in a child process on this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Card, Chunk, Request
from baton.workers.local.messages import AnswerPrompt, ModelLoaded
from baton.workers.local.model_process import ModelProcess
from baton.workers.local.model_session import ModelRequest

_SEED_BITS = 0xFFFFFFFF


@frozen_dataclass
class GenerationSettings:
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
    """Answers with a model, which other workers may use as well: their requests share its slots.

    `card.context` is the model's: the most the context may grow to, in tokens.
    """

    def __init__(
        self, card: Card, model: ModelProcess, settings: GenerationSettings | None = None
    ) -> None:
        self.model = model
        self._given = replace(card, context=model.settings.context, slots=model.settings.slots)
        self._settings = settings or GenerationSettings()
        self._loaded: ModelLoaded | None = None
        self._card = self._given

    @property
    def card(self) -> Card:
        """What is known of the worker; more once the model has been loaded."""
        loaded = self.model.loaded
        if loaded is not None and loaded is not self._loaded:
            self._loaded = loaded
            self._card = replace(
                self._given,
                context=loaded.context,
                parameters=loaded.parameters,
                hardware=loaded.hardware,
                licence=self._given.licence or loaded.licence,
                caution=loaded.note,
            )
        return self._card

    def warm(self) -> None:
        """Begin to load the model; also before there is an event loop."""
        self.model.warm()

    def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request; see core.ports.Worker."""
        return self.model.stream(ModelRequest(self._given.name, self._prompt(request)))

    async def count(self, request: Request) -> int | None:
        """Return how many tokens a request's prompt has; see core.ports.CountingWorker."""
        return await self.model.count(ModelRequest(self._given.name, self._prompt(request)))

    def _prompt(self, request: Request) -> AnswerPrompt:
        """Return what the child must know: the request's own wishes come before the worker's."""
        own, wished = self._settings, request.sampling
        seed = own.seed if request.seed is None else request.seed
        return AnswerPrompt(
            [{"role": m.role.value, "content": m.text} for m in request.messages],
            request.max_tokens,
            self.card.max_output,
            grammar=(request.shape.grammar or None) if request.shape else None,
            thinking=own.thinking,
            adapter=own.adapter,
            adapter_scale=own.adapter_scale,
            temperature=own.temperature if request.temperature is None else request.temperature,
            top_p=own.top_p if request.top_p is None else request.top_p,
            top_k=int(wished["top_k"]) if "top_k" in wished else own.top_k,
            min_p=wished.get("min_p", own.min_p),
            repeat_penalty=wished.get("repeat_penalty", own.repeat_penalty),
            frequency_penalty=wished.get("frequency_penalty"),
            presence_penalty=wished.get("presence_penalty"),
            seed=None if seed is None else seed & _SEED_BITS,
            schema=request.shape.schema if request.shape and not request.shape.grammar else "",
            stop=request.stop,
            client=request.client,
        )

    async def aclose(self) -> None:
        """Unload the model and forgive its deaths; the worker may be used again."""
        await self.model.aclose()

    @property
    def loading(self) -> bool:
        """Whether its model is being loaded, for all that its child has said until now."""
        return self.model.is_loading

    @property
    def adapter(self) -> Path | None:
        """The LoRA adapter that it puts on."""
        return self._settings.adapter

    @property
    def resident(self) -> int:
        """Bytes of memory the model may take now; others with the same model name the same ones."""
        return self.model.resident

    @property
    def process(self) -> int | None:
        """The process that holds the model now: others with the same model name the same one."""
        return self.model.pid
