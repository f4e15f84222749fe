"""The runner: a child process that holds one model and answers one prompt at a time.

`python -m baton.children.runner` speaks frames on stdin and stdout. Frames to it:

    load    path, context, threads, gpu_layers, gpu_share, idle_seconds
    ask     id, messages, max_tokens, max_output, temperature, seed, grammar
    cancel  id
    info    what: llama or onnxruntime

Frames from it: beat each second; loading, loaded; reading, text, speed, done or stopped for an
ask; info; failed with the name of the error that the front shall raise. It never prints to its
pipes otherwise, holds no secret, connects nowhere, and ends at once when its parent does.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import itertools
import os
import queue
import re
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from baton.children import framing
from baton.children.front import Failure, Front, keep_quiet_and_private, take_pipes

if TYPE_CHECKING:
    from baton.children import llama
    from baton.children.sampling import Sampler, Sampling
    from baton.children.template import ChatTemplate, Messages

TEXT_SECONDS = 0.03
"""Text goes out at once at first, then this often: a frame per token would cost speed."""

SPEED_SECONDS = 0.5
LOADING_SECONDS = 0.05
RENDER_SECONDS = 10.0
"""How long a chat template may take; one that never ends is the model file's fault."""

TINY = 1_000_000_000
TINY_PENALTY = 1.1
"""A model with fewer parameters is kept from repeating itself, unless its file says otherwise."""

MOST_BYTES_PER_TOKEN = 32
"""A text with more than this isn't counted exactly: endless spaces would take minutes."""

USEFUL_TOKENS = 256
"""Less room than this for an answer is none."""


class Inbox:
    """What the front asks for, kept until it is wanted."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[framing.Frame] = queue.SimpleQueue()
        self._cancelled = -1

    def put(self, frame: framing.Frame) -> None:
        """Take a frame; a cancellation is noted while native code runs."""
        if frame["type"] == "cancel":
            self._cancelled = frame["id"]
        else:
            self._work.put(frame)

    def get(self, seconds: float | None) -> framing.Frame | None:
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
        self._template: ChatTemplate

    def serve(self) -> None:
        """Do what is asked, until nothing was for too long."""
        work = {"load": self._load, "ask": self._answer, "info": self._inform}
        while (frame := self._inbox.get(self._idle_seconds)) is not None:
            try:
                work[frame["type"]](frame)
            except Failure as failure:
                self._front.send("failed", **failure.fields)

    def _inform(self, frame: framing.Frame) -> None:
        if frame["what"] == "llama":
            self._front.send("info", **_start_llama().build())
        else:
            onnxruntime = importlib.import_module("onnxruntime")
            providers = onnxruntime.get_available_providers()
            self._front.send("info", version=onnxruntime.__version__, providers=providers)

    def _load(self, frame: framing.Frame) -> None:
        self._front.send("loading", fraction=0.0)
        # While the model is read, natively and on one core, the other imports what comes after.
        modules = ("psutil", "baton.children.template")
        importing = threading.Thread(target=lambda: [importlib.import_module(m) for m in modules])
        importing.start()
        # This one is only wanted with the first word, so nothing waits for it here.
        threading.Thread(target=importlib.import_module, args=["numpy"], daemon=True).start()
        llama = _start_llama()
        try:
            model = self._load_model(frame)
            importing.join()
            self._prepare(model, frame)
        except llama.LlamaError as error:
            raise Failure(
                "ModelFileError",
                f"{Path(frame['path']).name} can't be loaded: {error}.",
                "The file may be broken or too new; download it again or choose another.",
            ) from error
        self._idle_seconds = frame["idle_seconds"]

    def _load_model(self, frame: framing.Frame) -> llama.Model:
        """Load with as many layers on the GPU as it takes: all that fit, half of them, none."""
        from baton.children import llama
        from baton.children.native import LlamaError

        layers = frame["gpu_layers"]
        if layers < 0:
            layers = llama.layers_that_fit(frame["path"])
        layers = int(layers * frame["gpu_share"])
        progress = self._every(LOADING_SECONDS, "loading", "fraction")
        while True:
            try:
                return llama.Model(frame["path"], layers, progress)
            except LlamaError:
                if not layers:
                    raise
                layers //= 2

    def _prepare(self, model: llama.Model, frame: framing.Frame) -> None:
        from baton.children import llama
        from baton.children.cores import physical_cores
        from baton.children.template import compile_template

        self._limit = min(frame["context"], model.trained_context or frame["context"])
        threads = frame["threads"] or physical_cores()
        self._model = model
        self._context = llama.Context(model, self._limit, threads, self._is_cancelled)
        self._template, note = compile_template(
            model.template, model.special("bos"), model.special("eos")
        )
        on_gpu = f"{model.gpu_layers}/{model.layers} layers on GPU"
        self._front.send(
            "loaded",
            licence=model.metadata("general.license") or "",
            parameters=model.parameters,
            context=self._limit,
            bytes=model.size + model.cell_bytes * self._limit,
            hardware=on_gpu if model.gpu_layers else "CPU only",
            note=note,
        )

    def _answer(self, frame: framing.Frame) -> None:
        from baton.children.native import LlamaError
        from baton.children.sampling import GrammarRefused

        self._ask = frame["id"]
        try:
            prompt = self._tokens(frame["messages"])
            cap = self._cap(len(prompt), frame)
            sampler = self._model.sampler(self._sampling(frame), frame["grammar"])
            with contextlib.closing(sampler):
                known = self._context.read(prompt, self._every(0, "reading", "done", "total"))
                written = self._write(sampler, cap)
                confidence = sampler.sureness.mean
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
            finish="length" if written == cap else "stop",
            cached=known,
            context=self._limit,
            confidence=confidence,
        )

    def _is_cancelled(self) -> bool:
        return self._inbox.has_cancelled(self._ask)

    def _tokens(self, messages: list[dict[str, str]]) -> list[int]:
        """Turn messages into the tokens of a prompt."""
        size = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        if size > self._limit * MOST_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=size // 4, limit=self._limit)
        return encode(self._model, self._render, messages)

    def _render(self, messages: Messages) -> str:
        from baton.children.template import TemplateRefused

        slow = threading.Timer(RENDER_SECONDS, self._give_up_rendering)
        slow.start()
        try:
            return self._template.render(messages)
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

    def _cap(self, prompt: int, frame: framing.Frame) -> int:
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

    def _sampling(self, frame: framing.Frame) -> Sampling:
        """Return what was asked for, else what the model file recommends, else our own."""
        from baton.children.sampling import Sampling

        ours = Sampling()
        # A tiny model that takes the likeliest word each time soon goes round in circles.
        repeat = TINY_PENALTY if self._model.parameters < TINY else ours.repeat_penalty
        temperature = frame["temperature"]
        if temperature is None:
            temperature = self._recommended("temp", ours.temperature)
        return Sampling(
            temperature,
            top_k=int(self._recommended("top_k", ours.top_k)),
            top_p=self._recommended("top_p", ours.top_p),
            min_p=self._recommended("min_p", ours.min_p),
            repeat_penalty=self._recommended("penalty_repeat", repeat) or ours.repeat_penalty,
            seed=frame["seed"],
        )

    def _recommended(self, key: str, default: float) -> float:
        try:
            number = float(self._model.metadata(f"general.sampling.{key}") or default)
        except ValueError:
            return default
        return number if 0 <= number < 1000 else default

    def _write(self, sampler: Sampler, cap: int) -> int:
        """Send the answer's text as it comes; return how many tokens it has."""
        text = Text(self._front)
        with contextlib.closing(self._context.write(sampler)) as tokens:
            for token in itertools.islice(tokens, cap):
                text.add(self._model.piece(token))
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


class Text:
    """Gathers an answer's bytes into whole characters, and characters into frames."""

    def __init__(self, front: Front) -> None:
        self.written = 0
        self._front = front
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._tokens = 0
        self._sent = 0.0
        self._began = self._told = time.monotonic()

    def add(self, piece: bytes) -> None:
        """Take one token's bytes."""
        self.written += 1
        self._tokens += 1
        self._pending += self._decoder.decode(piece)
        now = time.monotonic()
        if now - self._sent >= TEXT_SECONDS and self._pending:
            self._send(now)
        if now - self._told >= SPEED_SECONDS:
            self._told = now
            self._front.send("speed", tokens_per_second=self.written / (now - self._began))

    def finish(self) -> None:
        """Send what is left."""
        self._pending += self._decoder.decode(b"", final=True)
        if self._tokens:
            self._send(time.monotonic())

    def _send(self, now: float) -> None:
        self._front.send("text", text=self._pending, tokens=self._tokens)
        self._pending, self._tokens, self._sent = "", 0, now


def encode(model: llama.Model, render: Callable[[Messages], str], messages: Messages) -> list[int]:
    """Return the prompt's tokens. What people and files say can't forge control tokens.

    A text that names one ("<|im_end|>") is held out of the template by a word that nobody can
    guess, and comes in afterwards as mere text. White space stays around the word, for templates
    that trim.
    """
    forged: dict[str, str] = {}
    shown = []
    for message in messages:
        text = message["content"]
        if model.tokenise(text, special=True) != model.tokenise(text, special=False):
            word = f"held{secrets.token_hex(16)}"
            forged[word] = text.strip()
            text = text.replace(text.strip(), word)
        shown.append({"role": message["role"], "content": text})
    prompt = render(shown)
    tokens: list[int] = []
    for part in re.split(f"({'|'.join(forged)})", prompt) if forged else [prompt]:
        tokens += model.tokenise(forged.get(part, part), special=part not in forged)
    return model.begin(tokens)


def _start_llama() -> ModuleType:
    """Import llama.cpp now that the front's end would be noticed, and quieten it."""
    try:
        from baton.children import llama
    except Exception as error:  # a library that can't be loaded says so in many ways
        raise Failure(
            "WorkerUnavailable",
            f"llama.cpp can't be loaded: {error}.",
            "Run `baton doctor`; installing Baton anew mends most of it.",
        ) from error
    llama.start(lambda text: print(text, end="", file=sys.stderr, flush=True))
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
