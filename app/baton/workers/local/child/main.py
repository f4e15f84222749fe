"""The model process: a child that holds one model and answers several prompts at once.

The child `runner` speaks the messages of `workers.local.messages` on stdin
and stdout. It holds no secret, connects nowhere, and ends at once when its parent does.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from baton.ipc.messages import Message
from baton.ipc.parent_channel import Failure, ParentChannel, connect_parent
from baton.workers.local.messages import (
    REQUESTS,
    AnswerPrompt,
    CheckFile,
    DescribeLlama,
    FileChecked,
    LoadModel,
    ModelLoaded,
    ModelLoading,
    PromptCounted,
)

if TYPE_CHECKING:
    from baton.workers.local.child import llama
    from baton.workers.local.child.model_context import Context
    from baton.workers.local.child.prompt import PromptReader
    from baton.workers.local.child.scheduler import Scheduler, Sequence

LOADING_SECONDS = 0.05

_LATER_MODULES = (
    "baton.workers.local.child.chat_template",
    "baton.workers.local.child.scheduler",
    "numpy",
)
"""What is wanted once the model is loaded; numpy only with the first word."""


class Runner:
    """Loads one model, then has a scheduler answer prompts with it."""

    def __init__(self, parent: ParentChannel) -> None:
        self._parent = parent
        self._idle_seconds: float | None = None
        self._limit = 0
        self._model: llama.Model
        self._chat: Context
        self._planning: Context | None = None
        self._request: LoadModel
        self._prompts: PromptReader
        self._adapters: llama.Adapters
        self._scheduler: Scheduler | None = None

    def serve(self) -> None:
        """Do what is asked, until nothing was for too long."""
        while True:
            busy = self._scheduler is not None and self._scheduler.is_busy
            request = self._parent.receive(0 if busy else self._idle_seconds)
            if request is not None:
                self._do(request)
            elif self._scheduler is not None and busy:
                self._scheduler.run_turn()
            else:
                return

    def _do(self, request: LoadModel | AnswerPrompt | CheckFile | DescribeLlama) -> None:
        try:
            match request:
                case LoadModel():
                    self._load_file(request)
                case AnswerPrompt(only_counts=True):
                    self._parent.send(PromptCounted(self._prompts.count(request), id=request.id))
                case AnswerPrompt():
                    assert self._scheduler is not None, "a model is loaded first"
                    self._scheduler.add(self._sequence(request))
                case CheckFile(path=path):
                    self._check(path)
                case DescribeLlama():
                    self._parent.send(_start_llama().info())
        except Failure as failure:
            self._parent.send(failure.reply(request.id))

    def _check(self, path: Path) -> None:
        from baton.workers.local.child.prompt import PromptReader

        llama = _start_llama()
        try:
            model = llama.check_file(path)
        except llama.LlamaError as error:
            raise _unloadable(path, error) from error
        reader = PromptReader(self._parent, model, model.trained_context)
        self._parent.send(FileChecked(reader.note))

    def _load_file(self, request: LoadModel) -> None:
        self._parent.send(ModelLoading(0.0))
        llama = _start_llama()
        try:
            self._load_model(request)
            self._prepare(request.expected.total)
        except llama.LlamaError as error:
            raise _unloadable(request.path, error) from error
        self._idle_seconds = request.idle_seconds
        gc.enable()

    def _load_model(self, request: LoadModel) -> None:
        """Load with as many layers on the GPU as it takes: all that fit, half of them, none."""
        from baton.workers.local.child import llama
        from baton.workers.local.child.llama_loader import LlamaError

        layers = min(request.gpu_layers, request.expected.layers + 1)
        if layers < 0:
            layers = llama.layers_that_fit(request.expected)
        layers = int(layers * request.gpu_share)
        while True:
            try:
                return self._load_with(layers, request)
            except LlamaError:
                if not layers:
                    raise
                layers //= 2

    def _load_with(self, layers: int, request: LoadModel) -> None:
        """Load the model, and a first context, in which a GPU's memory may end as well."""
        from baton.workers.local.child import llama
        from baton.workers.local.child.llama_loader import LlamaError

        loading = partial(ModelLoading, on_gpu=layers > 0)
        self._parent.send(loading(0.0))
        model = llama.Model(request.path, layers, self._every(LOADING_SECONDS, loading))
        self._request = request
        self._limit = min(request.context, model.trained_context or request.context)
        try:
            self._chat = self._context(model, self._limit, quantised=request.expected.quantised)
        except LlamaError:
            model.free()
            raise
        self._model = model

    def _context(self, model: llama.Model, limit: int, *, quantised: bool = False) -> Context:
        from baton.platform.machine_limits import physical_cores
        from baton.workers.local.child.model_context import Context

        def should_stop() -> bool:
            return self._scheduler is not None and self._scheduler.should_stop()

        threads = self._request.threads or physical_cores()
        slots = self._request.slots
        return Context(model, limit, threads, should_stop, quantised=quantised, slots=slots)

    def _prepare(self, size: int) -> None:
        from baton.workers.local.child import llama
        from baton.workers.local.child.prompt import PromptReader
        from baton.workers.local.child.scheduler import Scheduler

        model = self._model
        self._prompts = PromptReader(self._parent, model, self._limit)
        self._prompts.try_template()
        self._adapters = llama.Adapters(model)
        self._scheduler = Scheduler(self._parent, model, self._limit)
        on_gpu = f"{model.gpu_layers}/{model.layers} layers on GPU"
        self._parent.send(
            ModelLoaded(
                context=self._limit,
                parameters=model.parameters,
                bytes=size,
                hardware=on_gpu if model.gpu_layers else "CPU only",
                licence=model.metadata("general.license") or "",
                note=self._prompts.note,
            )
        )

    def _sequence(self, request: AnswerPrompt) -> Sequence:
        """Return a request as the scheduler takes it. Raises Failure."""
        from baton.core.sampling_settings import recommended_sampling, resolve_sampling
        from baton.workers.local.child.llama_loader import LlamaError
        from baton.workers.local.child.model_context import NO_ADAPTER, AppliedAdapter
        from baton.workers.local.child.sampler import FIRST_TOKENS
        from baton.workers.local.child.scheduler import Sequence, failure_of

        try:
            adapter = self._adapters.get(request.adapter)
            form = self._adapters.prompt(request.adapter)
            prompt = self._prompts.plain(request, form) if form else self._prompts.chat(request)
            file = recommended_sampling(self._model.metadata)
            sampling = resolve_sampling(asdict(request), file, self._model.parameters)
            first = prompt.cap if form else FIRST_TOKENS
            grammar = request.grammar
            if grammar is None and request.schema:
                from baton.workers.local.child.json_grammar import json_grammar

                grammar = json_grammar(request.schema)
            sampler = self._model.sampler(sampling, grammar, first)
            return Sequence(
                request.id,
                prompt,
                sampler,
                self._parent.send,
                context=self._planning_context() if form else self._chat,
                adapter=AppliedAdapter(adapter, request.adapter_scale) if adapter else NO_ADAPTER,
                shows_lines=bool(form),
                client=request.client,
                knows_nothing=request.seed is not None,
            )
        except LlamaError as error:
            raise failure_of(error) from error

    def _planning_context(self) -> Context:
        """Return a context for prompts without a chat, so that planning costs the chat no cache."""
        from baton.workers.local.child.batch_plan import MIN_CONTEXT_TOKENS

        if self._planning is None:
            self._planning = self._context(self._model, min(self._limit, MIN_CONTEXT_TOKENS))
        return self._planning

    def _every(self, seconds: float, kind: Callable[..., Message]) -> Callable[..., None]:
        """Return a function that sends its arguments as such a message, but not too often."""
        last = 0.0

        def report(*values: float) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= seconds:
                last = now
                self._parent.send(kind(*values))

        return report


def _unloadable(path: Path, error: Exception) -> Failure:
    return Failure(
        "ModelFileError",
        f"{path.name} can't be loaded: {error}.",
        "The file may be broken or too new; download it again or choose another.",
    )


def _start_llama() -> ModuleType:
    """Import llama.cpp now that the parent's end would be noticed, and quieten it."""
    try:
        from baton.workers.local.child import llama

        llama.start(partial(print, end="", file=sys.stderr, flush=True))
    except Exception as error:  # a library that can't be loaded says so in many ways
        raise Failure(
            "WorkerUnavailable",
            f"llama.cpp can't be loaded: {error}.",
            "Run `baton doctor`; installing Baton again repairs most of it.",
        ) from error
    return llama


def main() -> None:
    """Run until the parent is gone or nothing was asked for too long."""
    with connect_parent(REQUESTS) as parent:
        gc.disable()  # imports leave nothing to free, and it is a tenth of their time
        # They are imported while the parent prepares its order, and while the model is read, which
        # takes one core.
        importing = threading.Thread(target=lambda: [*map(importlib.import_module, _LATER_MODULES)])
        importing.daemon = True
        importing.start()
        Runner(parent).serve()


if __name__ == "__main__":
    main()
