"""The runner: a child process that holds one model and answers one prompt at a time.

`python -m baton.ipc.child_entry runner` speaks frames on stdin and stdout. Frames to it:

    load    path, context, threads, gpu_layers, gpu_share, expected, idle_seconds
    ask     id, messages, max_tokens, max_output, grammar, thinking, adapter, adapter_scale, and
            temperature, top_k, top_p, min_p, repeat_penalty, seed
    cancel  id
    check   path
    info    what: llama or onnxruntime

Frames from it: beat each second; loading, loaded; reading, thinking, text, speed, done or stopped
for an ask; checked; info; failed with the name of the error that the front shall raise. It never
prints to its pipes otherwise, holds no secret, connects nowhere, and ends at once when its parent
does.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from baton.ipc import frames
from baton.ipc.parent_channel import Failure, Front, keep_quiet_and_private, take_pipes
from baton.workers.local.child import lora
from baton.workers.local.child.prompt_tokens import encode

if TYPE_CHECKING:
    from baton.gguf.memory_fit import ModelLoad
    from baton.workers.local.child import llama
    from baton.workers.local.child.chat_template import ChatTemplate, Messages
    from baton.workers.local.child.reasoning_filter import Mark, Thoughts
    from baton.workers.local.child.sampler import Sampler

LOADING_SECONDS = 0.05
RENDER_SECONDS = 10.0
"""How long a chat template may take; one that never ends is the model file's fault."""

MOST_BYTES_PER_TOKEN = 32
"""A text with more than this isn't counted exactly: endless spaces would take minutes."""

USEFUL_TOKENS = 256
"""Less room than this for an answer is none, and none for thoughts before it."""


class Inbox:
    """What the front asks for, kept until it is wanted."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[frames.Frame] = queue.SimpleQueue()
        self._cancelled = -1

    def put(self, frame: frames.Frame) -> None:
        """Take a frame; a cancellation is noted while native code runs."""
        if frame["type"] == "cancel":
            self._cancelled = frame["id"]
        else:
            self._work.put(frame)

    def get(self, seconds: float | None) -> frames.Frame | None:
        """Return the next frame that asks for work, None when none came in time."""
        try:
            return self._work.get(timeout=seconds)
        except queue.Empty:
            return None

    def has_cancelled(self, ask: int) -> bool:
        """Tell whether the front doesn't want that ask any more."""
        return self._cancelled >= ask


class Runner:
    """Loads one model, then answers one prompt at a time."""

    def __init__(self, front: Front, inbox: Inbox) -> None:
        self._front = front
        self._inbox = inbox
        self._idle_seconds: float | None = None
        self._ask = 0
        self._limit = 0
        self._model: llama.Model
        self._context: llama.Context
        self._chat: llama.Context
        self._planning: llama.Context | None = None
        self._threads = 0
        self._template: ChatTemplate
        self._marks: tuple[Mark, ...]
        self._mark_tokens: set[int]
        self._thoughts: Thoughts
        self._adapters: lora.Adapters

    def serve(self) -> None:
        """Do what is asked, until nothing was for too long."""
        work = {"load": self._load, "ask": self._answer}
        work |= {"check": self._check, "info": self._inform}
        while (frame := self._inbox.get(self._idle_seconds)) is not None:
            try:
                work[frame["type"]](frame)
            except Failure as failure:
                self._front.send("failed", **failure.fields)

    def _inform(self, frame: frames.Frame) -> None:
        if frame["what"] == "llama":
            self._front.send("info", **_start_llama().build())
        else:
            onnxruntime = importlib.import_module("onnxruntime")
            providers = onnxruntime.get_available_providers()
            self._front.send("info", version=onnxruntime.__version__, providers=providers)

    def _check(self, frame: frames.Frame) -> None:
        llama = _start_llama()
        try:
            llama.check_file(frame["path"])
        except llama.LlamaError as error:
            raise _unloadable(frame["path"], error) from error
        self._front.send("checked")

    def _load(self, frame: frames.Frame) -> None:
        from baton.gguf.memory_fit import ModelLoad

        self._front.send("loading", fraction=0.0)
        # While the model is read, natively and on one core, the other imports what comes after.
        modules = (
            "psutil",
            "baton.workers.local.child.chat_template",
            "baton.workers.local.child.text_stream",
        )
        importing = threading.Thread(target=lambda: [importlib.import_module(m) for m in modules])
        importing.start()
        # This one is only wanted with the first word, so nothing waits for it here.
        threading.Thread(target=importlib.import_module, args=["numpy"], daemon=True).start()
        llama = _start_llama()
        try:
            load = ModelLoad(**frame["expected"])
            self._load_model(frame, load)
            importing.join()
            self._prepare(load)
        except llama.LlamaError as error:
            raise _unloadable(frame["path"], error) from error
        self._idle_seconds = frame["idle_seconds"]

    def _load_model(self, frame: frames.Frame, load: ModelLoad) -> None:
        """Load with as many layers on the GPU as it takes: all that fit, half of them, none."""
        from baton.workers.local.child import llama
        from baton.workers.local.child.llama_loader import LlamaError

        layers = min(frame["gpu_layers"], load.layers + 1)
        if layers < 0:
            layers = llama.layers_that_fit(load)
        layers = int(layers * frame["gpu_share"])
        while True:
            try:
                return self._load_with(layers, frame, load.quantised)
            except LlamaError:
                if not layers:
                    raise
                layers //= 2

    def _load_with(self, layers: int, frame: frames.Frame, quantised: bool) -> None:
        """Load the model, and a first context, in which a GPU's memory may end as well."""
        from baton.workers.local.child import llama
        from baton.workers.local.child.cpu_threads import physical_cores
        from baton.workers.local.child.llama_loader import LlamaError

        progress = self._every(LOADING_SECONDS, "loading", "fraction")
        model = llama.Model(frame["path"], layers, progress)
        limit = min(frame["context"], model.trained_context or frame["context"])
        threads = frame["threads"] or physical_cores()
        try:
            context = llama.Context(model, limit, threads, self._is_cancelled, quantised)
        except LlamaError:
            model.free()
            raise
        self._model, self._chat, self._limit = model, context, limit
        self._context, self._threads = context, threads

    def _prepare(self, load: ModelLoad) -> None:
        from baton.workers.local.child.chat_template import compile_template

        model = self._model
        self._template, note = compile_template(
            model.template, model.special("bos"), model.special("eos")
        )
        self._adapters = lora.Adapters(model)
        self._know_marks(model)
        on_gpu = f"{model.gpu_layers}/{model.layers} layers on GPU"
        self._front.send(
            "loaded",
            licence=model.metadata("general.license") or "",
            parameters=model.parameters,
            context=self._limit,
            bytes=load.total,
            hardware=on_gpu if model.gpu_layers else "CPU only",
            note=note,
        )

    def _know_marks(self, model: llama.Model) -> None:
        """Find out what the model puts around its thoughts."""
        from baton.workers.local.child.reasoning_filter import known

        def tokens(text: str) -> list[int]:
            return model.tokenise(text, special=True)

        self._marks = known(model.template or "", lambda text: len(tokens(text)) == 1)
        named = (t for mark in self._marks for text in mark[:2] for t in tokens(text))
        self._mark_tokens = {t for t in named if not model.piece(t)}

    def _answer(self, frame: frames.Frame) -> None:
        from baton.core.sampling_settings import recommended_sampling, resolve_sampling
        from baton.workers.local.child.llama_loader import LlamaError
        from baton.workers.local.child.sampler import FIRST, GrammarRefused

        self._ask = frame["id"]
        try:
            form = self._adapters.prompt(frame["adapter"])
            self._context = self._planning_context() if form else self._chat
            prompt = self._plain_tokens(frame, form) if form else self._tokens(frame)
            cap = self._cap(len(prompt), frame)
            self._context.adapt(self._adapters.get(frame["adapter"]), frame["adapter_scale"])
            file = recommended_sampling(self._model.metadata)
            how = resolve_sampling(frame, file, self._model.parameters)
            first = cap if form else FIRST
            sampler = self._model.sampler(how, frame["grammar"], first)
            with contextlib.closing(sampler):
                known = self._context.read(prompt, self._every(0, "reading", "done", "total"))
                written = self._write(sampler, prompt, cap)
                confidence = sampler.sureness.mean
                lines = sampler.sureness.lines if form else []
        except GrammarRefused as error:
            raise Failure(
                "WorkerError",
                f"This worker can't keep to the form that the answer must have: {error}.",
                "Choose another worker.",
            ) from error
        except LlamaError as error:
            raise Failure("WorkerError", f"The model failed: {error}.", "Try again.") from error
        if self._is_cancelled():
            return self._front.send("stopped", id=self._ask)
        self._front.send(
            "done",
            tokens_in=len(prompt),
            tokens_out=written,
            finish="length" if written >= cap or self._thoughts.thinking else "stop",
            cached=known,
            context=self._limit,
            confidence=confidence,
            lines=lines,
        )

    def _is_cancelled(self) -> bool:
        return self._inbox.has_cancelled(self._ask)

    def _planning_context(self) -> llama.Context:
        """Return a context for prompts without a chat, so that planning costs the chat no cache."""
        from baton.workers.local.child import llama

        if self._planning is None:
            limit = min(self._limit, llama.SMALLEST_CONTEXT)
            self._planning = llama.Context(self._model, limit, self._threads, self._is_cancelled)
        return self._planning

    def _plain_tokens(self, frame: frames.Frame, form: str) -> list[int]:
        """Turn the last message into the tokens of a prompt in an adapter's own form."""
        from baton.workers.local.child.llama import SMALLEST_CONTEXT
        from baton.workers.local.child.reasoning_filter import Thoughts

        text = form.replace("{prompt}", frame["messages"][-1]["content"])
        limit = min(self._limit, SMALLEST_CONTEXT)
        if len(text.encode("utf-8", "replace")) > limit * MOST_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=len(text) // 4, limit=limit)
        self._thoughts = Thoughts()
        tokens = self._model.begin(self._model.tokenise(text, special=False))
        if len(tokens) + USEFUL_TOKENS > limit:
            raise Failure("ContextTooLong", "", needed=len(tokens) + USEFUL_TOKENS, limit=limit)
        return tokens

    def _tokens(self, frame: frames.Frame) -> list[int]:
        """Turn messages into the tokens of a prompt."""
        messages = frame["messages"]
        size = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        if size > self._limit * MOST_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=size // 4, limit=self._limit)
        brief = frame["max_tokens"] is not None and frame["max_tokens"] < USEFUL_TOKENS
        thinking = False if frame["grammar"] or brief else frame["thinking"]
        return encode(self._model, lambda shown: self._begun(shown, thinking), messages)

    def _begun(self, messages: Messages, thinking: bool | None) -> str:
        """Return the prompt, up to where the answer begins, or thoughts do."""
        from baton.workers.local.child import reasoning_filter

        prompt = self._render(messages, thinking)
        if thinking is False:
            prompt += reasoning_filter.without(prompt, self._marks)
        self._thoughts = reasoning_filter.Thoughts(
            self._marks, reasoning_filter.opened(prompt, self._marks)
        )
        return prompt

    def _render(self, messages: Messages, thinking: bool | None) -> str:
        from baton.workers.local.child.chat_template import TemplateRefused

        slow = threading.Timer(RENDER_SECONDS, self._give_up_rendering)
        slow.start()
        try:
            return self._template.render(messages, thinking)
        except TemplateRefused as error:
            raise Failure(
                "WorkerError",
                f"The model's chat template refuses this conversation: {error}.",
                "Start a new conversation, or choose another worker.",
            ) from error
        finally:
            slow.cancel()

    def _give_up_rendering(self) -> NoReturn:
        self._front.send(
            "failed",
            error="ModelFileError",
            message="The model's chat template doesn't come to an end.",
            hint="Choose another model.",
        )
        os._exit(0)

    def _cap(self, prompt: int, frame: frames.Frame) -> int:
        """Return how many tokens the answer may have."""
        room = self._limit - prompt
        asked: int | None = frame["max_tokens"]
        most: int = frame["max_output"]
        wanted = asked or min(USEFUL_TOKENS, most)
        if min(wanted, USEFUL_TOKENS) > room:
            needed = prompt + wanted
            raise Failure("ContextTooLong", "", needed=needed, limit=self._limit)
        if wanted > room:
            raise Failure(
                "WorkerError",
                f"The prompt leaves room for {room:,} tokens, and {wanted:,} were asked for.",
                "Ask for fewer.",
            )
        return asked or min(most, room)

    def _write(self, sampler: Sampler, prompt: list[int], cap: int) -> int:
        """Send the answer's text as it comes; return how many tokens it has, thoughts included.

        Thoughts that would leave no room for the answer are brought to an end, and so are those at
        which the model itself stops.
        """
        from baton.workers.local.child.text_stream import Text

        text = Text(self._front, self._thoughts)
        tokens = list(prompt)
        most = cap - cap // 4
        while True:
            with contextlib.closing(self._context.write(sampler)) as new:
                for token in itertools.islice(new, cap - text.written):
                    tokens.append(token)
                    mused = self._thoughts.thinking
                    piece = self._model.piece(token, token in self._mark_tokens)
                    text.add(piece)
                    if b"\n" in piece:
                        sampler.sureness.end_line()
                    if mused and not self._thoughts.thinking:
                        sampler.sureness.forget()  # it is of the answer, not of the way to it
                    elif mused and text.thought >= most:
                        break
            ending = self._model.tokenise(self._thoughts.ending, special=True)
            if not ending or self._is_cancelled() or len(ending) >= cap - text.written:
                break
            for token in ending:
                text.add(self._model.piece(token, token in self._mark_tokens))
            tokens += ending
            self._context.read(tokens, lambda *_: None)
        text.finish()
        return text.written

    def _every(self, seconds: float, kind: str, *names: str) -> Callable[..., None]:
        """Return a function that sends its arguments as such a frame, but not too often."""
        last = 0.0

        def report(*values: float) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= seconds:
                last = now
                self._front.send(kind, **dict(zip(names, values, strict=True)))

        return report


def _hear(text: str) -> None:
    lora.heard.append(text)
    print(text, end="", file=sys.stderr, flush=True)


def _unloadable(path: str, error: Exception) -> Failure:
    return Failure(
        "ModelFileError",
        f"{Path(path).name} can't be loaded: {error}.",
        "The file may be broken or too new; download it again or choose another.",
    )


def _start_llama() -> ModuleType:
    """Import llama.cpp now that the front's end would be noticed, and quieten it."""
    try:
        from baton.workers.local.child import llama

        llama.start(_hear)
    except Exception as error:  # a library that can't be loaded says so in many ways
        raise Failure(
            "WorkerUnavailable",
            f"llama.cpp can't be loaded: {error}.",
            "Run `baton doctor`; installing Baton anew mends most of it.",
        ) from error
    return llama


def main() -> None:
    """Run until the front is gone or nothing was asked for too long."""
    keep_quiet_and_private()
    status = 1
    inbox = Inbox()
    try:
        Runner(Front(*take_pipes(), inbox.put), inbox).serve()
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)  # past llama.cpp's own clean-up, which may wait for a GPU


if __name__ == "__main__":
    main()
